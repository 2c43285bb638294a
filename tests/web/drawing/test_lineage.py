"""The drawing of what came from what."""

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from falaj.web.drawing.layers import layered
from falaj.web.drawing.lineage import HIGH, WIDE, Arrow, Box, drawing

graphs = st.integers(min_value=1, max_value=12).flatmap(
    lambda size: st.tuples(
        st.just(list(range(size))), st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=30)
    )
)


@given(graphs)
def test_every_node_is_placed_once_and_arrows_lead_onward(graph: tuple[list[int], list[tuple[int, int]]]) -> None:
    nodes, edges = graph
    onward = [(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]]
    layers = layered(nodes, onward)
    assert sorted(node for layer in layers for node in layer) == nodes
    level = {node: index for index, layer in enumerate(layers) for node in layer}
    assert all(level[source] < level[target] for source, target in onward)


@given(graphs)
def test_a_circle_is_drawn_like_anything_else(graph: tuple[list[int], list[tuple[int, int]]]) -> None:
    nodes, edges = graph
    assert sorted(node for layer in layered(nodes, edges) for node in layer) == nodes


@given(graphs)
def test_no_two_boxes_overlap_and_all_lie_within_the_picture(graph: tuple[list[int], list[tuple[int, int]]]) -> None:
    nodes, edges = graph
    boxes = [Box(id=str(node), kind="run", label=f"run {node}") for node in nodes]
    picture = ElementTree.fromstring(drawing(boxes, [Arrow(source=str(a), target=str(b)) for a, b in edges], "lineage"))
    found = [rect for rect in picture.iter("rect") if rect.get("width") == "190"]
    places = [(float(rect.attrib["x"]), float(rect.attrib["y"])) for rect in found]
    assert len(places) == len(nodes)
    for index, (x, y) in enumerate(places):
        assert 0 <= x <= float(picture.attrib["width"]) - WIDE
        assert 0 <= y <= float(picture.attrib["height"]) - HIGH
        for other_x, other_y in places[:index]:
            assert abs(x - other_x) >= WIDE or abs(y - other_y) >= HIGH


def test_data_of_a_late_run_stands_beside_it() -> None:
    layers = layered(
        ["old data", "first", "second", "third", "new data"],
        [("old data", "first"), ("first", "second"), ("second", "third"), ("new data", "third")],
    )
    assert [sorted(layer) for layer in layers] == [["old data"], ["first"], ["new data", "second"], ["third"]]


def test_labels_are_text_and_nodes_lead_to_their_pages() -> None:
    nasty = "<script>alert(1)</script>\"'&"
    boxes = [Box(id="a", kind="dataset", label=nasty), Box(id="b", kind="run", label="fit", link="/projects/p/runs/b")]
    drawn = drawing(
        [*boxes, Box(id="c", kind="version", label="3", link="/x", here=True)],
        [Arrow(source="a", target="b", words=nasty)],
        nasty,
    )
    picture = ElementTree.fromstring(drawn)
    assert "<script" not in drawn
    assert [link.get("href") for link in picture.iter("a")] == ["/projects/p/runs/b"]
    assert nasty in (picture.get("aria-label") or "")


def test_a_long_label_is_shortened_and_whole_in_its_title() -> None:
    drawn = drawing([Box(id="a", kind="run", label="n" * 300)], [], "one")
    assert "n" * 300 in drawn
    assert max(len(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", drawn)) < 40


def test_data_shows_its_digest_beside_its_kind() -> None:
    drawn = drawing([Box(id="a", kind="data", label="june", note="9f86d081")], [], "one")
    assert ">data · 9f86d081</text>" in drawn
    assert 'class="lineage-node lineage-data"' in drawn
