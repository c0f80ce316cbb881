"""The command's group and its one exit: whatever happens becomes one of the documented codes."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import traceback
from collections.abc import Sequence

import click

import fuseworks_client.commands
from fuseworks_client import exits
from fuseworks_client.version import version


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=f"""\b
Examples:
  fuseworks optimize model.py
  fuseworks optimize ranker.onnx --budget 10m --out result --json > result.json
  fuseworks apply result/recipe.yaml other_model.py
  fuseworks bench models/ --out suite
  fuseworks diagnose rank0.json.gz rank1.json.gz
  fuseworks explain model.py --target cuda:sm_90
  fuseworks login https://fuseworks.example
  fuseworks submit model.py --wait --against latest --max-latency-ratio 1.05
  fuseworks cancel 0f8e2c1a-...
  fuseworks doctor

{exits.HELP}""",
)
@click.version_option(version(), prog_name="fuseworks")
def cli() -> None:
    """Makes a model faster and proves it.

    Give it a model (.py in KernelBench's convention, .zip with model.py, .pt2 of torch.export, or .onnx). It says how
    much faster the model can be, why, and why that may be believed; and it leaves a package to deploy, a recipe to use
    again and a report.
    """


def _add_commands() -> None:
    """Each module of `commands` defines one verb named `command`."""
    for module in pkgutil.iter_modules(fuseworks_client.commands.__path__):
        cli.add_command(importlib.import_module(f"fuseworks_client.commands.{module.name}").command)


_add_commands()


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        given = list(sys.argv[1:] if arguments is None else arguments)
        code = cli.main(args=given, prog_name="fuseworks", standalone_mode=False)
        return int(code or exits.DONE)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return exits.USAGE
    except click.ClickException as error:
        error.show()
        return exits.USAGE
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        return exits.INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # the reader of our output went away (`| head`), for which click and rich would exit with 1, a gate's answer;
        # and Python's flush at exit must not complain about it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.DONE
    except Exception:  # the process boundary: what nobody foresaw is ours
        traceback.print_exc()
        return exits.OURS
