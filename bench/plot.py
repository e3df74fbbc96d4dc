"""Plots as SVG: panels with a grid, curves, marks and bars, on a card for light and dark pages."""

import dataclasses
import html
import math

STYLE = """<style>text { font-family: Inter, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif;
font-size: 12px; fill: #1b2733; } .strong { font-weight: 600; font-size: 14px; }
.muted { fill: #5f6f7f; } .grid { stroke: #e6ebf0; } .card { fill: #ffffff; stroke: #d9dfe6; }
@media (prefers-color-scheme: dark) { text { fill: #e8eef4; } .muted { fill: #93a3b3; }
.grid { stroke: #222c37; } .card { fill: #12181f; stroke: #2b3642; } }</style>"""
COLORS = ("#7b8a99", "#0b9a8f", "#d1661c", "#7a6ae0", "#d63d6f", "#c79a10", "#2f7fd1")


class Axis:
    """Of a panel: `share` says where between its ends a value lies, from 0 to 1."""

    def label(self, tick):
        return f"{tick:,.7g}"


class LogAxis(Axis):
    """From one power of ten to another; ticks at each."""

    def __init__(self, values):
        self.first = math.floor(math.log10(min(values)))
        self.last = math.ceil(math.log10(max(values)))

    def share(self, value):
        return (math.log10(value) - self.first) / max(1, self.last - self.first)

    def ticks(self):
        return [10.0**power for power in range(self.first, self.last + 1)]


class LinearAxis(Axis):
    """From `first` to `last`; about five ticks at round numbers."""

    def __init__(self, first, last):
        self.first, self.last = first, last

    def share(self, value):
        return (value - self.first) / (self.last - self.first)

    def ticks(self):
        raw = (self.last - self.first) / 5
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)
        begin = math.ceil(self.first / step - 1e-9)
        return [step * i for i in range(begin, math.floor(self.last / step + 1e-9) + 1)]


class NameAxis(Axis):
    """Names side by side, the i-th at i."""

    def __init__(self, names):
        self.names = list(names)

    def share(self, value):
        return (value + 0.5) / len(self.names)

    def ticks(self):
        return range(len(self.names))

    def label(self, tick):
        return self.names[tick]


@dataclasses.dataclass(frozen=True)
class Panel:
    """A plot in a picture: the upper left corner of its frame and its size, in pixels. Its methods
    give lines of SVG; points are (x, y) in units of the axes."""

    left: float
    top: float
    width: float
    height: float
    title: str
    x: Axis
    y: Axis

    def place(self, point):
        return (self.left + self.width * self.x.share(point[0]),
                self.top + self.height * (1 - self.y.share(point[1])))

    def frame(self):
        right, bottom = self.left + self.width, self.top + self.height
        yield text((self.left, self.top - 14), self.title, "strong")
        for tick in self.x.ticks():
            x = self.left + self.width * self.x.share(tick)
            yield _line((x, self.top), (x, bottom))
            yield text((x, bottom + 18), self.x.label(tick), "muted", "middle")
        for tick in self.y.ticks():
            y = self.top + self.height * (1 - self.y.share(tick))
            yield _line((self.left, y), (right, y))
            yield text((self.left - 8, y + 4), self.y.label(tick), "muted", "end")

    def curve(self, points, color, dashes=""):
        """A line from the first to the last, which may be dashed as "5 4"."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(self.place, points))
        yield (f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.8" '
               f'stroke-dasharray="{dashes}"/>')

    def marks(self, points, color, shape="circle", names=()):
        """A mark at each; `names` are shown when one points at them."""
        for i, point in enumerate(points):
            title = f"<title>{html.escape(names[i])}</title>" if names else ""
            yield f'<g fill="{color}">{title}{mark(self.place(point), shape)}</g>'

    def bar(self, x, span, color, shift=0.0, width=16.0):
        """From `span[0]` up to `span[1]`; `width` pixels wide, `shift` pixels to the right of x."""
        (middle, bottom), (_, top) = self.place((x, span[0])), self.place((x, span[1]))
        yield (f'<rect x="{middle + shift - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" '
               f'height="{bottom - top:.1f}" fill="{color}"/>')


def mark(at, shape, size=3.6):
    """A circle, a square, a diamond or a dashed line around a place in pixels."""
    x, y = at
    if shape == "dashes":
        return "".join(f'<rect x="{x + i:.1f}" y="{y - 0.9:.1f}" width="3" height="1.8"/>'
                       for i in (-9, -3, 3))
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}"/>'
    turned = f' transform="rotate(45 {x:.1f} {y:.1f})"' if shape == "diamond" else ""
    return (f'<rect x="{x - size:.1f}" y="{y - size:.1f}" width="{2 * size}" height="{2 * size}"'
            f'{turned}/>')


def text(at, content, style="", anchor="start"):
    return (f'<text class="{style}" x="{at[0]:.1f}" y="{at[1]:.1f}" text-anchor="{anchor}">'
            f'{html.escape(content)}</text>')


def legend(at, pitch, entries):
    """A row of (name, color, shape)."""
    for i, (name, color, shape) in enumerate(entries):
        x = at[0] + pitch * i
        yield f'<g fill="{color}">{mark((x, at[1]), shape, 4)}</g>'
        yield text((x + 10, at[1] + 4), name)


def document(width, height, title, lines):
    """The picture as a file's text; `lines` as the functions above give them."""
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                      'role="img">', f"<title>{html.escape(title)}</title>", STYLE,
                      f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" '
                      f'height="{height - 1}" rx="10"/>', *lines, "</svg>", ""])


def _line(begin, end):
    return (f'<line class="grid" x1="{begin[0]:.1f}" y1="{begin[1]:.1f}" x2="{end[0]:.1f}" '
            f'y2="{end[1]:.1f}"/>')
