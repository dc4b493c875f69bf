"""What a request becomes at a site."""

import pytest

from pit_grammar import parse
from pit_server.services.sites.shape import Shape, at_site, names_of, shape_of


@pytest.mark.parametrize(
    ("request_text", "per_node", "expected", "words"),
    [
        ("[]@hpc", 1, Shape(1, 1, None, (), 3600.0), "1 core for 1h"),
        ("2:[4:a100]@hpc", 1, Shape(2, 1, None, (("a100", 4),), 3600.0), "2 × 4 a100 for 1h"),
        ("[2.5:cpu,16:mem]@hpc", 1, Shape(1, 3, 16384, (), 3600.0), "3 cores for 1h"),
        # All nodes of an allocation are alike.
        ("[],2:[gpu]@hpc", 1, Shape(3, 1, None, (("gpu", 1),), 3600.0), "3 × 1 gpu for 1h"),
        ("5:[2:cpu]@hpc", 2, Shape(3, 4, None, (), 3600.0), "3 × 4 cores for 1h"),
        # An elastic job asks for its minimum.
        ("2-8:[1-4:a100]@hpc", 1, Shape(2, 1, None, (("a100", 1),), 3600.0), "2 × 1 a100 for 1h"),
    ],
)
def test_a_request_asks_for_equal_nodes(
    request_text: str, per_node: int, expected: Shape, words: str
) -> None:
    shape = shape_of(parse(request_text), per_node, 3600.0)
    assert (shape, str(shape)) == (expected, words)
    assert Shape.from_json(shape.to_json()) == shape


def test_on_pilots_the_site_has_chosen_machines_and_models() -> None:
    assert at_site(parse("2:[4:a100,2:cpu]@hpc")) == parse("2:[4:gpu,2:cpu]")
    assert names_of(parse("[]@hpc,2:[]@rack=r9")) == {"hpc"}


def test_a_kept_allocation_serves_for_equal_nodes_and_gpus_only() -> None:
    kept = shape_of(parse("2:[4:cpu,a100]@hpc"), 1, 3600.0)
    assert kept.serves(shape_of(parse("2:[2:cpu,a100]@hpc"), 1, 60.0))
    assert not kept.serves(shape_of(parse("2:[8:cpu,a100]@hpc"), 1, 60.0))
    assert not kept.serves(shape_of(parse("2:[4:cpu,2:a100]@hpc"), 1, 60.0))
    assert not kept.serves(shape_of(parse("[4:cpu,a100]@hpc"), 1, 60.0))
