"""`python -m fuseworks.embedded`: the whole platform on this machine, until Ctrl-C. `make run` and `make demo` call it.

With `--demo MODEL` it also uploads a model as a member of a sample team, follows the run, and shows what came out.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from fuseworks.embedded.children import ServerFailed
from fuseworks.embedded.demo import NoSampleTeams, run_demo
from fuseworks.embedded.installation import AlreadyRunning, Installation
from fuseworks.embedded.supervisor import ChildEnded, Supervisor

ROOT = Path(__file__).resolve().parents[3]
OURS = 3  # the exit code of our or the machine's fault, as the command's


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuseworks.embedded", description=__doc__)
    parser.add_argument("--port", type=int, default=8000, help="of the dashboard, on this machine only")
    parser.add_argument("--state", type=Path, default=None, help="folder of the database and of all files")
    parser.add_argument("--workers", type=int, default=1, help="CPU workers; more than one disturb each other's clocks")
    parser.add_argument("--demo", type=Path, metavar="MODEL", help="upload and optimize this file")
    parser.add_argument("--budget", default="290s", help="of the demo's run")
    parser.add_argument("--out", type=Path, default=None, help="where the demo leaves report, package and recipe")
    parser.add_argument("--exit", action="store_true", help="end after the demo")
    options = parser.parse_args(arguments)
    state = options.state or Path(os.environ.get("FUSEWORKS_STATE") or ROOT / ".fuseworks")
    installation = Installation(state.absolute(), port=options.port, workers=options.workers)
    supervisor = Supervisor(installation)
    try:
        supervisor.start()
        say(f"The dashboard is at {installation.url}/")
        print(installation.how_to_sign_in(), flush=True)
        code = 0
        if options.demo is not None:
            code = run_demo(installation, supervisor, options.demo, options.budget, options.out)
            say(f"The dashboard is at {installation.url}/")
        if options.demo is None or not options.exit:
            say("Ctrl-C ends everything.")
            supervisor.watch()
        return code
    except KeyboardInterrupt:
        say("Ending.")
        return 130 if options.demo is not None and options.exit else 0
    except ChildEnded as ended:
        print(f"\n==> {ended}", file=sys.stderr, flush=True)
        return OURS
    except (ServerFailed, AlreadyRunning, NoSampleTeams) as error:
        print(f"==> {error}", file=sys.stderr, flush=True)
        return OURS
    finally:
        supervisor.stop()


def say(message: str) -> None:
    print(f"==> {message}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
