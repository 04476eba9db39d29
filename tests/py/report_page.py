"""Looks at report.html as a reader does: a real Chromium, light and dark, a desk's width and a telephone's.

    python tests/py/report_page.py [--shots FOLDER] PAGE...

Needs selenium, axe-core (the file of axe-playwright-python) and Debian's chromium and chromium-driver; `tests/run` installs
them.  Prints what is wrong, one line each, and ends with status 1 if anything is.
"""

import base64
import importlib.util
import json
import pathlib
import sys
import tempfile

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"]
SCHEMES = ("light", "dark")
WIDTHS = (1280, 360)
FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex='0']"


def axe():
    """The text of axe-core: the package around it is not imported."""
    package = importlib.util.find_spec("axe_playwright_python")
    return (pathlib.Path(package.origin).parent / "axe.min.js").read_text()


def browser(profile):
    """A Chromium with an empty profile that tells of its console and its network."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS + ["--user-data-dir=" + profile]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))


def requests(driver):
    """Addresses that the page asked for since the last call."""
    asked = []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.append(message["params"]["request"]["url"])
    return asked


class Look:
    """One page in one scheme and width; problems are gathered, not raised."""

    def __init__(self, driver, page, scheme, width):
        self.driver, self.page, self.scheme, self.width = driver, page, scheme, width
        self.problems = []

    def wrong(self, what):
        """Notes a problem."""
        self.problems.append("%s, %s, %d px: %s" % (self.page.parent.name, self.scheme, self.width, what))

    def open(self):
        """Loads the page as this reader sees it."""
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": self.width, "height": 800, "deviceScaleFactor": 1, "mobile": False})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": self.scheme}]})
        self.driver.get_log("browser"), requests(self.driver)
        self.driver.get(self.page.as_uri())
        own = self.page.as_uri()
        for url in requests(self.driver):
            if url != own and not url.startswith("data:"):
                self.wrong("it asks for " + url)
        for entry in self.driver.get_log("browser"):
            self.wrong("console: " + entry["message"])
        for name in ("script", "img", "iframe", "object", "embed", "link[rel=stylesheet]"):
            if self.driver.find_elements(By.CSS_SELECTOR, name):
                self.wrong("it holds <%s>" % name)
        ground = self.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        dark = sum(int(part) for part in ground[4:-1].split(",")) < 3 * 128
        if dark != (self.scheme == "dark"):
            self.wrong("its ground is " + ground)

    def fits(self):
        """The page itself never scrolls sideways, whatever is opened."""
        wide = self.driver.execute_script("return document.documentElement.scrollWidth")
        if wide > self.width:
            self.wrong("it is %d px wide" % wide)

    def unfold(self):
        """Opens all that is folded, so that it is looked at too."""
        self.driver.execute_script("document.querySelectorAll('details').forEach(one => one.open = true)")

    def axe(self, text):
        """Every rule of axe-core, contrast included; passes must be there, or it has not looked."""
        self.driver.execute_script(text)
        found = self.driver.execute_async_script(
            "const done = arguments[0]; axe.run(document, {resultTypes: ['violations', 'passes']})"
            ".then(r => done({wrong: r.violations.map(v => [v.id, v.nodes.length, v.nodes[0].html.slice(0, 200),"
            " v.nodes[0].failureSummary]), right: r.passes.map(p => p.id)}), e => done({wrong: [['axe', 1, String(e), '']],"
            " right: []}))")
        for rule, count, html, why in found["wrong"]:
            self.wrong("axe %s, %d times: %s: %s" % (rule, count, html, " ".join(why.split())))
        if "color-contrast" not in found["right"]:
            self.wrong("axe did not measure any contrast")
        return len(found["right"])

    def keyboard(self):
        """Tab reaches each control once, in the order of the page, and each has a name and shows that it has the focus."""
        wanted = self.driver.execute_script(
            "return [...document.querySelectorAll(arguments[0])].filter(one => one.checkVisibility())", FOCUSABLE)
        self.driver.execute_script("window.scrollTo(0, 0); document.activeElement.blur()")
        for number, control in enumerate(wanted):
            ActionChains(self.driver).send_keys(Keys.TAB).perform()
            focused = self.driver.switch_to.active_element
            if focused != control:
                self.wrong("stop %d of Tab is %s instead of %s" % (number + 1, shown(focused), shown(control)))
                break
            if not focused.accessible_name.strip():
                self.wrong("no name: " + shown(focused))
            if self.driver.execute_script("return getComputedStyle(arguments[0]).outlineStyle", focused) == "none":
                self.wrong("no visible focus: " + shown(focused))
        return len(wanted)

    def folds(self):
        """Enter opens and closes what is folded; the skip link leads to the content."""
        folded = self.driver.find_element(By.CSS_SELECTOR, "details:not([open]) > summary")
        folded.send_keys(Keys.ENTER)
        if folded.find_element(By.XPATH, "..").get_attribute("open") is None:
            self.wrong("Enter does not open " + shown(folded))
        folded.send_keys(Keys.ENTER)
        self.driver.find_element(By.CSS_SELECTOR, ".skip").send_keys(Keys.ENTER)
        if self.driver.switch_to.active_element.tag_name != "main":
            self.wrong("the skip link leads to " + shown(self.driver.switch_to.active_element))


def shown(element):
    """An element in short."""
    return element.get_attribute("outerHTML")[:120]


def main(arguments):
    """Looks at all pages; the exit status."""
    shots = pathlib.Path(arguments[1]) if arguments[:1] == ["--shots"] else None
    pages = [pathlib.Path(page).resolve() for page in arguments[2 if shots else 0:]]
    text, problems, looks, stops, rules = axe(), [], 0, 0, 0
    with tempfile.TemporaryDirectory() as profile:
        driver = browser(profile)
        try:
            for page in pages:
                for scheme in SCHEMES:
                    for width in WIDTHS:
                        look = Look(driver, page, scheme, width)
                        look.open()
                        look.fits()
                        if shots:
                            name = "%s-%s-%d.png" % (page.parent.name, scheme, width)
                            whole = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
                            (shots / name).write_bytes(base64.b64decode(whole["data"]))
                        look.unfold()
                        look.fits()
                        if scheme == "light":
                            stops = max(stops, look.keyboard())
                        rules = max(rules, look.axe(text))
                        if scheme == "light" and width == WIDTHS[0]:
                            look.open()
                            look.folds()
                        problems += look.problems
                        looks += 1
        finally:
            driver.quit()
    for problem in problems:
        print(problem)
    print("%d looks at %d pages, %d stops of Tab, %d rules passed, %d problems"
          % (looks, len(pages), stops, rules, len(problems)))
    return 1 if problems or not pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
