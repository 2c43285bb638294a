"""All chapters in their order, the same on the page and in the file. Pure."""

from markupsafe import Markup

from falaj.lifecycle.operations.stories import Story
from falaj.web.drawing.svg import element
from falaj.web.stories import living, making, record
from falaj.web.stories.parts import Leaves, Links, own


def chapters(story: Story, links: Links, leaves: Leaves, *, whole: bool = False) -> Markup:
    """`whole`: with every proof of the ledger."""
    told = (
        making.itself(story, links),
        making.data(story, links),
        making.training(story, links),
        making.evaluation(story, links),
        living.pipelines(story, links),
        living.approvals(story, links),
        living.serving(story, links),
        living.watching(story, links),
        living.cost(story, links),
        record.events(story, links, leaves),
        record.ledger(story, whole=whole),
    )
    return Markup("").join(told)


def line(story: Story) -> Markup:
    drawn = element(
        "div", record.line(story), class_="drawing", tabindex="0", role="group", aria_label="From raw data to traffic"
    )
    return element("section", drawn, class_="card story-line", aria_label="From raw data to traffic")


def hidden(story: Story) -> Markup:
    """What this reader may not see, so that nobody takes what is missing for what is not there."""
    if not story.hidden:
        return Markup("")
    told = (element("li", f"{one.chapter.capitalize()}: ", own(one.words)) for one in story.hidden)
    said = element("p", "Not everything is visible to its reader:")
    return element("div", element("div", said, element("ul", *told, class_="plain-list")), class_="note warn")
