"""`fuseworks login`: the token is checked, kept for its owner alone, never printed, and goes to its own server only."""

from __future__ import annotations

import json
import socket
import stat
from pathlib import Path

import pytest

from tests.client.conftest import Command
from tests.client.site import Site

NOBODYS = "fw_" + "0" * 40
KEPT = Path("config/fuseworks/account.json")


@pytest.fixture
def signed_out(site: Site, fuseworks: Command) -> Command:
    del fuseworks.environment["FUSEWORKS_URL"], fuseworks.environment["FUSEWORKS_TOKEN"]
    return fuseworks


def test_it_keeps_a_good_token_for_its_owner_alone_and_never_prints_it(site: Site, signed_out: Command):
    done = signed_out("login", f"{site.url}/", "--token-stdin", stdin=f"{site.token}\n")
    assert done.returncode == 0, done.stderr
    assert f"Signed in as {site.user.email}: ads-ranking (owner)." in done.stdout
    assert site.token not in done.stdout + done.stderr
    path = signed_out.folder / KEPT
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == {"url": site.url, "token": site.token}
    # and other verbs speak with it
    assert signed_out("recipe", "list").stdout == "No recipe fits.\n"


def test_without_a_terminal_it_reads_the_token_and_warns_of_nothing(site: Site, signed_out: Command):
    done = signed_out("login", site.url, stdin=f"{site.token}\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Signed in as ") and "Token" not in done.stdout


def test_a_file_that_was_open_to_all_is_not_written_into(site: Site, signed_out: Command):
    partial = (signed_out.folder / KEPT).with_suffix(".partial")
    partial.parent.mkdir(parents=True)
    partial.write_text("left by a crash")
    partial.chmod(0o644)
    assert signed_out("login", site.url, "--token-stdin", stdin=site.token).returncode == 0
    assert stat.S_IMODE((signed_out.folder / KEPT).stat().st_mode) == 0o600


def test_a_bad_token_is_refused_with_the_remedy_and_not_kept(site: Site, signed_out: Command):
    done = signed_out("login", site.url, "--token-stdin", stdin=NOBODYS)
    assert done.returncode == 64
    assert "This API token is not known here, is over or was revoked." in done.stderr
    assert "accounts:usage:bad-token" in done.stderr
    assert "Make another one on the tokens page of this very site" in done.stderr
    assert NOBODYS not in done.stdout + done.stderr
    assert not (signed_out.folder / KEPT).exists()


@pytest.mark.parametrize(
    ("token", "words"),
    [("", "the token is empty"), ("fw_12 34", "not one word of ASCII"), ("fw_12–34", "not one word of ASCII")],
)
def test_what_cannot_be_a_token_is_not_sent_and_not_repeated(site: Site, signed_out: Command, token: str, words: str):
    done = signed_out("login", site.url, "--token-stdin", stdin=f"{token}\n")
    assert done.returncode == 64
    assert words in done.stderr
    assert not token or token not in done.stderr


def test_an_unreachable_server_is_said_at_once(fuseworks: Command):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = fuseworks("login", f"http://127.0.0.1:{port}", "--token-stdin", stdin=NOBODYS)
    assert done.returncode == 3
    assert f"http://127.0.0.1:{port} does not answer" in done.stderr
    assert "client:ours:unreachable" in done.stderr
    assert "Trying again" not in done.stderr
    assert NOBODYS not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "url", ["fuseworks.example", "ftp://fuseworks.example", "http://", "https://a b", "http://a:x"]
)
def test_what_is_no_address_is_usage_before_a_token_is_asked_for(fuseworks: Command, url: str):
    done = fuseworks("login", url)
    assert done.returncode == 64
    assert "is no address of a server, such as https://fuseworks.example" in done.stderr


def test_an_address_that_is_no_start_page_is_told_apart_from_a_bad_token(site: Site, signed_out: Command):
    done = signed_out("login", f"{site.url}/models", "--token-stdin", stdin=site.token)
    assert done.returncode == 3
    assert "no Fuseworks server" in done.stderr
    assert "Check the address" in done.stderr


def test_forget_removes_what_was_kept(site: Site, signed_out: Command):
    signed_out("login", site.url, "--token-stdin", stdin=site.token)
    assert signed_out("login", "--forget").stdout == "Forgotten.\n"
    assert not (signed_out.folder / KEPT).exists()
    assert signed_out("login", "--forget").stdout == "Nothing was remembered.\n"
    done = signed_out("recipe", "list")
    assert done.returncode == 64
    assert "run `fuseworks login URL`, or set FUSEWORKS_URL and FUSEWORKS_TOKEN" in done.stderr


def test_a_kept_token_does_not_go_to_another_server(site: Site, signed_out: Command):
    signed_out("login", site.url, "--token-stdin", stdin=site.token)
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0)
        done = signed_out("recipe", "list", FUSEWORKS_URL=f"http://127.0.0.1:{other.getsockname()[1]}")
        assert done.returncode == 64
        assert f"belongs to {site.url}" in done.stderr
        with pytest.raises(BlockingIOError):  # nobody even connected
            other.accept()


def test_the_environment_goes_before_what_is_kept_and_login_says_so(site: Site, signed_out: Command):
    done = signed_out("login", site.url, "--token-stdin", stdin=site.token, FUSEWORKS_TOKEN=NOBODYS)
    assert "FUSEWORKS_TOKEN is set and goes before what is kept here" in done.stderr
    assert signed_out("recipe", "list", FUSEWORKS_TOKEN=NOBODYS).returncode == 64
    # a secret out of a file ends with a newline
    assert signed_out("recipe", "list", FUSEWORKS_TOKEN=f"{site.token}\n").returncode == 0
