"""The page about the events is what the code says."""

from abeyance.journal.events import EVENT_TYPES
from scripts.events_reference import PAGE, page


class TestEventsReference:
    def test_the_page_is_up_to_date(self) -> None:
        """If not: ``python -m scripts.events_reference``."""
        assert page() == PAGE.read_text(encoding="utf-8")

    def test_it_has_every_topic_and_field(self) -> None:
        text = page()
        sections = {
            topic: text.partition(f"\n### {topic}\n")[2].partition("\n### ")[0] for topic in EVENT_TYPES
        }

        missing = [
            (topic, name)
            for topic, kind in EVENT_TYPES.items()
            for name in kind.model_fields
            if f"| `{name}` |" not in sections[topic]
        ]

        assert [] == missing
        assert [] == [topic for topic, section in sections.items() if len(section) < 20]
