"""`hobus completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from hobus.launch.cli.commands.options import with_home
from hobus.launch.cluster.home import Home
from hobus.launch.console import exit_codes
from hobus.launch.console.output import say

_HOW = {
    "bash": 'eval "$(hobus completion bash)"  # in ~/.bashrc',
    "zsh": 'eval "$(hobus completion zsh)"  # in ~/.zshrc',
    "fish": "hobus completion fish > ~/.config/fish/completions/hobus.fish",
}


@click.command(epilog="\b\n" + "\n".join(_HOW.values()))
@click.argument("shell", type=click.Choice(list(_HOW)))
@with_home
def completion(*, home: Home, shell: str) -> int:
    """Print the completion of a SHELL, to be evaluated there."""
    del home  # the same for all of them
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click knows these three
    root = click.get_current_context().find_root().command
    say(kind(root, {}, "hobus", "_HOBUS_COMPLETE").source())
    return exit_codes.OK
