"""`colonnade privacy`: from a mechanism and its numbers to ε for every observer, and back."""

from __future__ import annotations

import typer

from colonnade.cli import privacy_noise, privacy_runs

app = typer.Typer(
    help="""From a mechanism and its noise to ε for every observer, and from ε to the least noise.

Give the noise to learn ε, or --epsilon to learn the least noise. Numbers may be written 0.1, 1e-5 or 1/3.
""",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("gaussian")(privacy_noise.gaussian)
app.command("discrete-gaussian")(privacy_noise.discrete_gaussian)
app.command("laplace")(privacy_noise.laplace)
app.command("discrete-laplace")(privacy_noise.discrete_laplace)
app.command("skellam")(privacy_noise.skellam)
app.command("moments")(privacy_runs.moments)
app.command("poisson-binomial")(privacy_runs.poisson_binomial)
app.command("messages")(privacy_runs.messages)
