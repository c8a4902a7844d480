"""A person looks at a running job: the graph moves, barriers pass, and no one is shut out."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from tests.browser.driving import PATIENCE_MS, Driver, page_of

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture
def page(browser: Browser, driver: Driver) -> Iterator[Page]:
    with page_of(browser) as opened:
        opened.goto(driver.address_that_signs_in())
        expect(opened.locator("#job-state")).to_have_text("running")
        yield opened


def changes(page: Page, selector: str) -> None:
    """Waits until the text of an element is another one."""
    before = page.locator(selector).first.inner_text()
    expect(page.locator(selector).first).not_to_have_text(before)


def test_the_code_of_the_address_is_gone_and_good_only_once(browser: Browser, driver: Driver) -> None:
    address = driver.address_that_signs_in()
    with page_of(browser) as first, page_of(browser) as second:
        first.goto(address)
        expect(first.locator("#job-name")).to_have_text("card payments")
        assert "#" not in first.url
        second.goto(address)
        expect(second.locator("#problem")).to_contain_text("was used before")


def test_a_token_is_pasted_and_a_wrong_one_refused(browser: Browser, driver: Driver) -> None:
    with page_of(browser) as page:
        page.goto(driver.client.registration.address)
        page.get_by_label("Token").fill("not a token of this job")
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("#problem")).to_contain_text("not one of this job")
        page.get_by_label("Token").fill(driver.client.registration.token)
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("#job-name")).to_have_text("card payments")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Token")).to_be_visible()


def test_the_graph_moves(page: Page) -> None:
    nodes = page.locator(".node")
    expect(nodes).to_have_count(5)
    assert page.locator(".edge-how").all_inner_texts() == ["hash", "broadcast", "hash", "rebalance"]
    changes(page, ".facts .fact-note")  # records read in all
    changes(page, ".op-rate")
    expect(page.locator(".node .shares").first).to_contain_text(re.compile(r"\d.% busy"))
    expect(page.locator(".watermark", has_text="behind").first).to_be_visible()
    boxes = [node.bounding_box() for node in nodes.all()]
    for at, one in enumerate(boxes):
        for other in boxes[at + 1 :]:
            assert one is not None
            assert other is not None
            assert (
                one["x"] + one["width"] <= other["x"]
                or other["x"] + other["width"] <= one["x"]
                or (one["y"] + one["height"] <= other["y"] or other["y"] + other["height"] <= one["y"])
            ), "two chains overlap"


def test_a_chain_shows_its_tasks_and_operators(page: Page) -> None:
    page.locator(".node", has_text="in-euro").click()
    inspector = page.locator("#inspector")
    expect(inspector).to_contain_text("payments[1]")
    assert inspector.get_by_role("row", name="in-euro").is_visible()
    page.keyboard.press("Enter")  # the focus is on the chain: pressed again, it is let go
    expect(inspector).to_be_hidden()


def test_the_barriers_of_a_checkpoint_pass(page: Page) -> None:
    """Followed as it is complete: tasks go through their phases, and the next checkpoint comes by itself."""
    seen = page.evaluate(
        """() => new Promise((resolve) => {
            const seen = { phases: new Set(), checkpoints: new Set(), tokens: 0 };
            const look = () => {
                document.querySelectorAll(".task").forEach((task) => seen.phases.add(task.dataset.phase));
                seen.tokens = Math.max(seen.tokens, document.querySelectorAll(".token:not(.gone)").length);
                const title = document.querySelector("#barrier h3")?.textContent.match(/\\d+$/);
                if (title) seen.checkpoints.add(title[0]);
                if (seen.checkpoints.size < 3) requestAnimationFrame(look);
                else resolve({ phases: [...seen.phases], checkpoints: seen.checkpoints.size, tokens: seen.tokens });
            };
            look();
        })"""
    )
    assert {"before", "acknowledged"} < set(seen["phases"])  # what is between may be too short to be seen
    assert seen["tokens"] > 1


def test_a_checkpoint_is_chosen_and_scrubbed_with_the_keyboard(page: Page, driver: Driver) -> None:
    page.get_by_role("button", name="checkpoint 2, completed").click()
    expect(page.get_by_role("button", name="Follow the newest")).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#barrier h3")).to_have_text("The barrier’s way through checkpoint 2")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#barrier h3")).to_have_text("The barrier’s way through checkpoint 1")

    scrubber = page.get_by_label("Moment of the checkpoint")
    scrubber.focus()
    page.keyboard.press("Home")
    expect(page.locator(".now")).to_contain_text("before the barrier")
    page.keyboard.press("End")
    tasks = len(driver.client.status().tasks)
    expect(page.locator(".now")).to_have_text(f"{tasks} acknowledged")


def test_without_motion_nothing_plays_by_itself(browser: Browser, driver: Driver) -> None:
    with page_of(browser, motion="reduce") as page:
        page.goto(driver.address_that_signs_in())
        expect(page.locator(".now")).to_contain_text("acknowledged")
        assert page.get_by_role("button", name="Play").is_visible()


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(browser: Browser, driver: Driver, scheme: str, width: int) -> None:
    with page_of(browser, width=width, scheme=scheme, motion="reduce") as page:
        page.goto(driver.client.registration.address)
        assert faults(page) == []
        page.goto(driver.address_that_signs_in())
        page.locator(".node").first.click()
        for details in page.locator(".as-table summary").all():
            details.click()
        expect(page.locator("#barrier table")).to_be_visible()
        assert faults(page) == []
        page.get_by_role("button", name="Savepoint…").click()
        assert faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page is wider than the window"


def faults(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    grave = [each for each in found if each["impact"] in ("serious", "critical")]
    return [f"{each['id']}: {[node['html'][:200] for node in each['nodes'][:3]]}" for each in grave]


def test_the_theme_is_switched_and_remembered(page: Page) -> None:
    page.get_by_role("button", name="Use the dark theme").click()
    page.reload()
    expect(page.get_by_role("button", name="Use the light theme")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(11, 17, 23)"
