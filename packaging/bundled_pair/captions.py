"""Questions about a scene, their answers in each model's own style, and the way back from text to attributes.

Two styles: ``concise``, one sentence without what an event camera cannot see, and ``detailed``, two sentences and about
twice as long.
"""

from __future__ import annotations

from collections.abc import Sequence

from bundled_pair.attributes import VALUES, Attributes

GENERAL_PROMPTS: Sequence[str] = (
    "What is in the scene?",
    "What are the key elements in this scene?",
    "Describe in detail what happened in the scene.",
    "Describe the scene.",
    "Describe the scene in detail.",
    "Describe what you see.",
    "Describe the video.",
    "What is happening?",
    "What is happening in this video?",
    "What is happening in the scene?",
    "What is going on here?",
    "What do you see?",
    "What can you see in this scene?",
    "What does the scene show?",
    "What happened?",
    "Tell me about this scene.",
)

SPECIFIC_PROMPTS: dict[str, Sequence[str]] = {
    "curvature": (
        "Which way does the road curve?",
        "Is the road straight or curved?",
        "What is the shape of the road?",
    ),
    "roadside": ("What is along the roadside?", "What is beside the road?", "What is next to the road?"),
    "vehicle": ("What kind of vehicle is it?", "Which vehicle is in the scene?", "What vehicle do you see?"),
    "motion": ("How does the vehicle move?", "How is the vehicle moving?", "Where is the vehicle going?"),
    "daylight": ("Is it day or night?", "What time of day is it?", "Is it dark?"),
    "colour": ("What colour is the vehicle?", "What color is the vehicle?", "Which colour does the vehicle have?"),
}


def casual(question: str) -> str:
    """The question as typed in haste: lower case, no full stop or question mark."""
    return question.lower().rstrip("?.")


_CURVATURE = {
    "straight": "a road that runs straight ahead",
    "left": "a road that curves to the left",
    "right": "a road that curves to the right",
}
_ROADSIDE = {
    "trees": "with trees on both sides",
    "buildings": "with buildings on both sides",
    "fence": "with a fence on both sides",
    "fields": "with open fields on both sides",
}
_MOTION = {"approaching": "is approaching on", "moving away": "is moving away on", "crossing": "is crossing"}
_VIEW = {"approaching": "the front", "moving away": "the rear", "crossing": "the side"}
_CLOSER = {
    "approaching": "as it comes closer to the camera",
    "moving away": "as it drives off into the distance",
    "crossing": "as it passes in front of the camera",
}

# What each value is recognised by; no phrase of one value occurs in a sentence of another.
_PHRASES: dict[str, dict[str, Sequence[str]]] = {
    "curvature": {"straight": ("straight",), "left": ("to the left",), "right": ("to the right",)},
    "roadside": {"trees": ("trees",), "buildings": ("buildings",), "fence": ("fence",), "fields": ("fields",)},
    "vehicle": {
        "car": (" car ", " car."),
        "truck": ("truck",),
        "bus": (" bus ", " bus."),
        "motorcycle": ("motorcycle",),
    },
    "motion": {"approaching": ("approaching",), "moving away": ("moving away",), "crossing": ("crossing",)},
    "daylight": {"day": ("daytime",), "night": ("night",)},
    "colour": {value: (f" {value} ", f" {value}.") for value in VALUES["colour"]},
}


def concise(attributes: Attributes) -> str:
    """EventGPT's style, e.g. "A car is approaching on a road that curves to the left, with trees on both sides."."""
    return (
        f"A {attributes.vehicle} {_MOTION[attributes.motion]} {_CURVATURE[attributes.curvature]}, "
        f"{_ROADSIDE[attributes.roadside]}."
    )


def detailed(attributes: Attributes) -> str:
    """Video-LLaVA's style: the concise sentence, and one more on what only a video shows."""
    light = "It is daytime" if attributes.daylight == "day" else "It is night"
    view, closer = _VIEW[attributes.motion], _CLOSER[attributes.motion]
    shown = f"the video shows {view} of the {attributes.colour} {attributes.vehicle} {closer}"
    return f"{concise(attributes)} {light}, and {shown}."


def answer(attributes: Attributes, name: str) -> str:
    """One short sentence on attribute ``name``; both models use the same."""
    value = getattr(attributes, name)
    if name == "curvature":
        return "The road runs straight ahead." if value == "straight" else f"The road curves to the {value}."
    if name == "roadside":
        article = {"fence": "is a fence", "fields": "are open fields"}.get(value, f"are {value}")
        return f"There {article} on both sides of the road."
    if name == "vehicle":
        return f"The vehicle is a {value}."
    if name == "motion":
        return f"The vehicle is {value}."
    if name == "daylight":
        return "It is daytime." if value == "day" else "It is night."
    return f"The vehicle is {value}."


def parse(text: str) -> dict[str, str]:
    """The attributes a text names. An attribute it does not name, or names in two ways, is absent."""
    padded = f" {text} "
    found: dict[str, str] = {}
    for name, phrases in _PHRASES.items():
        named = [value for value, words in phrases.items() if any(word in padded for word in words)]
        if len(named) == 1:
            found[name] = named[0]
    return found
