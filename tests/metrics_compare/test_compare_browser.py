"""The comparison's page in a real browser, without a network."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).parent / "golden" / "three.html"


def chromium(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program is not None, "no chromium on the PATH"
    offline = "--host-resolver-rules=MAP * ~NOTFOUND"
    common = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", offline]
    command = [program, *common, *arguments, PAGE.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


@pytest.mark.browser
def test_the_browser_reads_every_table_and_the_drawing() -> None:
    dom = chromium("--dump-dom").stdout
    assert dom.count("<table>") == PAGE.read_text(encoding="utf-8").count("<table>") == 12
    assert dom.count('<circle class="dot"') == 6
    assert 'class="worse">slower</td>' in dom


@pytest.mark.browser
def test_the_page_is_drawn(tmp_path: Path) -> None:
    shot = tmp_path / "page.png"
    chromium(f"--screenshot={shot}", "--window-size=1200,900")
    data = shot.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (1200, 900)
    # A blank page of this size compresses to less than 10 kB.
    assert len(data) > 50_000
