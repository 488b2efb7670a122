"""Figures that anybody can reproduce."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "bench.all": ("every figure is listed with the command, the day and the machine that gave it", "product"),
    "bench.chart": ("figures are drawn as SVG on request, bars of one unit on one scale", "product"),
    "bench.self": (
        "`bench self` asks a person's own questions with, without and with stale memory, and says how it counted",
        "product",
    ),
    "bench.peer": ("a peer is measured where it is installed, never assumed", "product"),
}
