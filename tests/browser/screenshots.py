"""`python -m tests.browser.screenshots`: makes the pictures of docs/images anew, of a real job. Takes two minutes.

Not part of the tests: a picture that differs by a figure is no failure. Look at them before you commit them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from playwright.sync_api import Page, expect
from tests.browser.driving import PATIENCE_MS, Driver, chromium, page_of

IMAGES = Path(__file__).parents[2] / "docs" / "images"
CHECKPOINTS = 40
#: Scrubs to where most barriers are on their way.
SCRUB = """(range) => {
    const go = (value) => { range.value = value; range.dispatchEvent(new Event("input")); };
    const flying = (value) => { go(value); return document.querySelectorAll(".token:not(.gone):not(.held)").length; };
    const moments = [...Array(200).keys()].map((at) => ({ at: at * 5, tokens: flying(at * 5) }));
    go(moments.reduce((best, each) => (each.tokens >= best.tokens ? each : best)).at);
}"""


def main() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        driver = Driver(Path(folder), "3", "1s", "3000")
        try:
            driver.wait_until(lambda: driver.client.status().checkpoints_completed >= CHECKPOINTS // 2)
            driver.client.wait_for(driver.client.savepoint(str(Path(folder) / "savepoints")))
            driver.kill_a_slot()
            driver.wait_until(lambda: driver.client.status().checkpoints_completed >= CHECKPOINTS)
            for scheme in ("light", "dark"):
                for kind, width in (("", 1440), ("phone-", 390)):
                    with page_of(browser, width=width, scheme=scheme) as page:
                        page.goto(driver.address_that_signs_in())
                        take(page, IMAGES / f"dashboard-{kind}{scheme}.png")
        finally:
            driver.end()


def take(page: Page, path: Path) -> None:
    page.locator("#barrier .now").wait_for()
    page.get_by_label("Moment of the checkpoint").evaluate(SCRUB)
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=path, full_page=True)


if __name__ == "__main__":
    main()
