"""The progress of a pull as lines for the user, and its error as a sentence."""

from typing import Any

STEP_PERCENT = 5
MIN_PAUSE_S = 1.0
MB = 1_000_000
DONE = ("Download complete", "Pull complete", "Already exists")
# A part of what engine or registry say, and the sentence for the user. The first match counts.
_SENTENCES = (
    ("no space left", "this node has no space left for the image {image}"),
    ("toomanyrequests", "the registry of {image} refuses more pulls for now"),
    ("unauthorized", "{where} does not give {image} to this node; an admin can log in with `docker login`"),
    ("denied", "{where} has no {image}, or does not give it to this node (`docker login`)"),
    ("forbidden", "{where} does not give {image} to this node; an admin can log in with `docker login`"),
    ("manifest unknown", "there is no image {image}"),
    ("not found", "there is no image {image}"),
    ("no matching manifest", "there is no image {image} for machines like this node"),
    ("invalid reference", "{image!r} is not the name of an image"),
    ("gave HTTP response to HTTPS", "{where} does not speak TLS; `insecure-registries` would allow that"),
    ("x509", "{where} shows a certificate that this node does not trust"),
    ("no such host", "{where} cannot be reached: this node cannot resolve its name"),
    ("connection refused", "{where} cannot be reached: connection refused"),
    ("timeout", "{where} cannot be reached: it timed out"),
    ("timed out", "{where} cannot be reached: it timed out"),
    ("Timeout", "{where} cannot be reached: it timed out"),
    ("unreachable", "{where} cannot be reached: no route to it"),
    ("EOF", "{where} cannot be reached: it closed the connection"),
    ("connection reset", "{where} cannot be reached: it closed the connection"),
    ("does not answer", "the Docker engine of this node did not answer while it pulled {image}"),
)

# In a sentence: the cause is not the image's name, nor a registry that does not give it.
_NODE_FAULTS = (
    "no space left",
    "refuses more pulls for now",
    "does not trust",
    "it timed out",
    "no route to it",
    "it closed the connection",
    "did not answer",
)


class Progress:
    """Sums up the progress of all layers; a line is due every 5 percent, at most once a second."""

    def __init__(self) -> None:
        self._totals: dict[str, int] = {}
        self._loaded: dict[str, int] = {}
        self._layers: set[str] = set()
        self._done: set[str] = set()
        self._last: tuple[float, int, str] = (float("-inf"), 0, "")

    def take(self, event: dict[str, Any], now: float) -> str | None:
        """The line to show after this event, if one is due."""
        layer, status = event.get("id", ""), event.get("status", "")
        detail = event.get("progressDetail") or {}
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
        at, before, last_text = self._last
        if text == last_text or now - at < MIN_PAUSE_S:
            return None
        if abs(percent - before) < STEP_PERCENT and now - at < 10 * MIN_PAUSE_S and last_text:
            return None
        self._last = (now, percent, text)
        return text


def explain(image: str, text: str) -> str:
    """Why an image could not be pulled."""
    for pattern, sentence in _SENTENCES:
        if pattern in text:
            return sentence.format(image=image, where=f"the registry {registry(image)}")
    return f"the image {image} could not be pulled: {text}"


def is_node_fault(text: str) -> bool:
    """Whether another node may get the image: this one has no space or no network, or does not trust it."""
    return any(pattern in explain("", text) for pattern in _NODE_FAULTS)


def is_temporary(text: str) -> bool:
    """Whether another try may help, because the network is at fault."""
    sentence = explain("", text)
    return "cannot be reached: " in sentence or "for now" in sentence or "did not answer" in sentence


def registry(image: str) -> str:
    """Where an image comes from, by its name."""
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"
