"""What a pull tells on its way, as lines for people; and why it did not succeed, as a sentence."""

from typing import Any

STEP_PERCENT = 5
PACE_S = 1.0
MB = 1_000_000
DONE = ("Download complete", "Pull complete", "Already exists")
# What engine and registry say, and what a person can make of it. The first that is found counts.
_SENTENCES = (
    ("no space left", "this node has no space left for the image {image}"),
    ("toomanyrequests", "the registry of {image} refuses more pulls for now"),
    ("unauthorized", "{where} does not give {image} to this node; an admin logs in there by `docker login`"),
    ("denied", "{where} has no {image}, or does not give it to this node (`docker login`)"),
    ("forbidden", "{where} does not give {image} to this node; an admin logs in there by `docker login`"),
    ("manifest unknown", "there is no image {image}"),
    ("not found", "there is no image {image}"),
    ("no matching manifest", "there is no image {image} for machines like this node"),
    ("invalid reference", "{image!r} is no name of an image"),
    ("gave HTTP response to HTTPS", "{where} does not speak TLS; `insecure-registries` would allow that"),
    ("x509", "{where} shows a certificate that this node does not trust"),
    ("no such host", "{where} cannot be reached: its name is not known on this node"),
    ("connection refused", "{where} cannot be reached: nobody listens there"),
    ("timeout", "{where} cannot be reached: it takes too long"),
    ("timed out", "{where} cannot be reached: it takes too long"),
    ("Timeout", "{where} cannot be reached: it takes too long"),
    ("unreachable", "{where} cannot be reached: there is no way to it"),
    ("EOF", "{where} cannot be reached: it hung up"),
    ("connection reset", "{where} cannot be reached: it hung up"),
    ("does not answer", "the Docker engine of this node did not answer while it pulled {image}"),
)


class Progress:
    """Adds up what an engine tells of each layer; a line is due every 5 percent or second."""

    def __init__(self) -> None:
        self._totals: dict[str, int] = {}
        self._loaded: dict[str, int] = {}
        self._layers: set[str] = set()
        self._done: set[str] = set()
        self._said: tuple[float, int, str] = (float("-inf"), 0, "")

    def take(self, told: dict[str, Any], now: float) -> str | None:
        """The line that is due after this, if one is."""
        layer, status = told.get("id", ""), told.get("status", "")
        detail = told.get("progressDetail") or {}
        if status == "Pulling fs layer":
            self._layers.add(layer)
        elif status == "Downloading" and detail.get("total"):
            self._totals[layer], self._loaded[layer] = detail["total"], detail.get("current", 0)
        elif status in DONE:
            self._layers.add(layer)
            self._loaded[layer] = self._totals.get(layer, 0)
            if status != "Download complete":
                self._done.add(layer)
        return self._due(now)

    def _due(self, now: float) -> str | None:
        total, loaded = sum(self._totals.values()), sum(self._loaded.values())
        if not total:
            return None
        percent = 100 * loaded // total
        text = f"{percent} % of {total / MB:.1f} MB, {len(self._done)} of {len(self._layers)} layers"
        at, before, said = self._said
        if text == said or now - at < PACE_S:
            return None
        if abs(percent - before) < STEP_PERCENT and now - at < 10 * PACE_S and said:
            return None
        self._said = (now, percent, text)
        return text


def explain(image: str, text: str) -> str:
    """Why an image could not be pulled."""
    for pattern, sentence in _SENTENCES:
        if pattern in text:
            return sentence.format(image=image, where=f"the registry {registry(image)}")
    return f"the image {image} could not be pulled: {text}"


def is_passing(text: str) -> bool:
    """Whether another try may help, for it is the network's fault."""
    sentence = explain("", text)
    return "cannot be reached: " in sentence or "for now" in sentence or "did not answer" in sentence


def registry(image: str) -> str:
    """Where an image comes from, by its name."""
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"
