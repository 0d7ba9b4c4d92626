import click


@click.group()
def bench() -> None:
    """Measure: kernels beside their peers, compile times, what the passes are worth."""
