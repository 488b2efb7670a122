"""Whatever stands for a space in some script is a space in a tag and in a note."""

from __future__ import annotations

import sys

import pytest

from hermes.safety.fence import NOTE, StreamingContextScrubber, sanitize_context

BLANKS = [character for character in map(chr, range(sys.maxunicode + 1)) if character.isspace()]


@pytest.mark.proves("fence.forms")
def test_every_blank_of_unicode_may_stand_in_a_tag() -> None:
    shown = {blank for blank in BLANKS if sanitize_context(f"a<{blank}memory-context{blank}/{blank}>b") != "ab"}
    assert (len(BLANKS) > 25, shown) == (True, set())


@pytest.mark.proves("fence.forms", "fence.hidden")
def test_no_blank_lets_a_fence_be_seen_in_a_stream() -> None:
    for blank in BLANKS:
        scrubber = StreamingContextScrubber()
        assert scrubber.feed(f"<{blank}memory-context{blank}>hidden</{blank}memory-context{blank}>b") == "b"


@pytest.mark.proves("fence.forms")
def test_every_blank_of_unicode_may_stand_in_the_note() -> None:
    assert {blank for blank in BLANKS if sanitize_context(f"a{NOTE.replace(' ', blank)}b") != "ab"} == set()
