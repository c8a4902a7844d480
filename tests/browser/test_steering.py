"""A person steers a real job from the page, and sees it survive the kill of a worker."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Page, expect
from tests.browser.driving import PATIENCE_MS, Driver, page_of

expect.set_options(timeout=PATIENCE_MS)


def steer(page: Page, name: str, **fields: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()
    dialog = page.get_by_role("dialog")
    for label, value in fields.items():
        dialog.get_by_label(label.replace("_", " ")).fill(value)
    dialog.get_by_role("button", name=name.removesuffix("…")).click()


def outcome(page: Page, name: str) -> str:
    line = page.locator(".operation", has=page.get_by_text(name, exact=True)).first
    expect(line).not_to_have_attribute("data-state", "in_progress")
    return line.inner_text()


def test_a_job_is_steered_from_the_page(browser: Browser, driver: Driver, tmp_path: Path) -> None:
    with page_of(browser) as page:
        page.goto(driver.address_that_signs_in())
        expect(page.locator("#job-state")).to_have_text("running")

        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name="Go back").click()  # asked, and not done

        steer(page, "Checkpoint")
        assert "complete" in outcome(page, "Checkpoint")

        steer(page, "Savepoint…", Folder=str(tmp_path / "savepoints"))
        assert "savepoint-card-payments" in outcome(page, "Savepoint")
        assert len(list((tmp_path / "savepoints").iterdir())) == 1

        driver.kill_a_slot()
        expect(page.locator(".exception-fact")).to_contain_text("was lost")
        expect(page.locator(".exception-when")).to_contain_text("attempt 1")
        expect(page.locator(".facts")).to_contain_text("attempt 2")
        expect(page.locator("#job-state")).to_have_text("running")
        expect(page.locator(".way-back")).to_contain_text("Went on from checkpoint")

        steer(page, "Rescale…", Tasks_per_operator="400")
        assert "failed" in outcome(page, "Rescale")
        steer(page, "Rescale…", Tasks_per_operator="1")
        expect(page.locator(".node-head", has_text="2 tasks")).to_have_count(0)
        expect(page.locator(".operation", has_text="Rescale complete")).to_be_visible()

        steer(page, "Stop…", Savepoint_in_folder=str(tmp_path / "last"))
        expect(page.locator("#job-state")).to_have_text("finished")
        expect(page.locator("#connection")).to_have_text("job has ended")
        expect(page.get_by_role("button", name="Savepoint…")).to_be_disabled()
        assert driver.process.wait(60) == 0
        assert len(list((tmp_path / "last").iterdir())) == 1
