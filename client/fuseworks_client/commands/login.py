"""`fuseworks login`: remember a server and a token on this machine."""

from __future__ import annotations

import os
import sys

import click

from fuseworks_client import exits, words
from fuseworks_client.account import TOKEN, URL, checked, forget, keep
from fuseworks_client.problems import show_problem
from fuseworks_client.remote import STDERR, Ended, told
from fuseworks_client.server import Server


@click.command(
    "login",
    short_help="Remember a server and a token on this machine.",
    epilog=f"""\b
Examples:
  fuseworks login https://fuseworks.example
  echo "$TOKEN" | fuseworks login https://fuseworks.example
  fuseworks login --forget

\b
Pipelines need no login. All verbs that speak to a server heed:
  FUSEWORKS_URL      its address; goes before what is remembered
  FUSEWORKS_TOKEN    the token that belongs to it
  FUSEWORKS_RETRY_S  how many seconds a server that does not answer is asked again: 120
  SSL_CERT_FILE      certificates of an authority of your own

{exits.HELP}""",
)
@click.argument("url", required=False)
@click.option(
    "--token-stdin",
    is_flag=True,
    help="Read the token from standard input, as is done without a terminal.",
)
@click.option("--forget", "forgets", is_flag=True, help="Remove what is remembered on this machine.")
def command(url: str | None, token_stdin: bool, forgets: bool) -> int:
    """Remember the server at URL and an API token, which you make on its tokens page.

    The token is checked, then kept in a file that only you can read.
    """
    if forgets:
        if url or token_stdin:
            raise click.UsageError("--forget stands alone")
        click.echo("Forgotten." if forget() else "Nothing was remembered.")
        return exits.DONE
    if not url:
        raise click.UsageError("give the URL of the server")
    checked(url, "any")  # before the token is asked for
    asks = sys.stdin.isatty() and not token_stdin
    read = click.prompt("Token", hide_input=True) if asks else sys.stdin.readline()
    account = checked(url, str(read))
    try:
        with told():
            me = Server(account).get("me/")
    except Ended as ended:
        return ended.code
    if not isinstance(me, dict) or "email" not in me or "teams" not in me:
        problem = {"side": "usage", "message": f"{account.url} is no Fuseworks server", "remedy": "Check the address."}
        show_problem(problem, "failed", STDERR)
        return exits.USAGE
    teams = ", ".join(f"{team['slug']} ({team['role']})" for team in me["teams"]) or "no team yet"
    try:
        path = keep(account)
    except (OSError, RuntimeError) as error:
        click.echo(f"Error: it cannot be remembered: {error}. Set {URL} and {TOKEN} instead.", err=True)
        return exits.OURS
    click.echo(words.plain(f"Signed in as {me['email']}: {teams}. Kept in {path}."))
    for name in (URL, TOKEN):
        if os.environ.get(name):
            click.echo(f"Note: {name} is set and goes before what is kept here.", err=True)
    return exits.DONE
