"""How a program runs: runner, back ends, limits, jail, processes, guardian."""
