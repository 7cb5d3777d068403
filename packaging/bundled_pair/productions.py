"""The grammar of the pair's questions and answers, as data: what can be asked, and every way of saying every fact.

`{name}` stands for a choice among `RULES[name]`; `{name@fact}` for one among `RULES[name@VALUE]`, with the scene's
value of that fact, or `?` where the speaker cannot see it. `{more}` stands for a clause on something not told yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

DESCRIBE, WHAT, WHERE, HOW_MANY, WHICH_WAY, IS_THERE = "describe", "what", "where", "how many", "which way", "is there"
KINDS = (DESCRIBE, WHAT, WHERE, HOW_MANY, WHICH_WAY, IS_THERE)

CLAUSES: Mapping[str, str] = {
    "vehicle": "{see} {thing}",
    "motion": "it {going}",
    "curvature": "{way}",
    "roadside": "{beside}",
    "balloons": "{sky@balloons}",
    "daylight": "it is {light@daylight}",
}
"""What `{more}` becomes, by the fact it tells."""

THING, GOING, WAY, BESIDE, SKY, TIME = "vehicle", "motion", "curvature", "roadside", "balloons", "daylight"

ANSWERS: Mapping[tuple[str, str], Sequence[tuple[str, tuple[str, ...]]]] = {
    (DESCRIBE, ""): (
        ("{see} {thing} that {going}{more}{more}{more}", (THING, GOING)),
        ("{thing} {going}{more}{more}{more}", (THING, GOING)),
        ("{when@daylight} {thing} {going}{more}{more}", (THING, GOING, TIME)),
        ("{way}, {join} {thing} {going}{more}{more}", (THING, GOING, WAY)),
        ("{beside}, {join} {thing} {going}{more}{more}", (THING, GOING, BESIDE)),
        ("{sky@balloons}; {below} {thing} {going}{more}{more}", (THING, GOING, SKY)),
        ("{scene} {shows} {thing}{more}{more}{more}{more}{more}", (THING,)),
        ("{place} {way}; {thing} {going}{more}{more}", (THING, GOING, WAY)),
    ),
    (WHAT, "vehicle"): (
        ("{thing}", (THING,)),
        ("{see} {thing}{more}", (THING,)),
        ("it {must} {thing}{more}{more}", (THING,)),
        ("{thing}, {judge}{more}{more}", (THING,)),
    ),
    (WHAT, "roadside"): (
        ("{see} {verge@roadside} {along}{more}{more}", (BESIDE,)),
        ("{beside}, {judge}{more}", (BESIDE,)),
        ("{place} {beside}{more}{more}", (BESIDE,)),
    ),
    (WHAT, "colour"): (
        ("the {vehicle@vehicle} {seems} {paint@colour}{more}{more}", (THING,)),
        ("{paint@colour}, {judge}{more}{more}", ()),
    ),
    (WHAT, "daylight"): (
        ("it is {light@daylight}, {judge}{more}{more}", (TIME,)),
        ("{judge} it is {plainly} {light@daylight}{more}{more}", (TIME,)),
    ),
    (WHERE, "side"): (
        ("{sky@balloons}{more}{more}", (SKY,)),
        ("{place} {sky@balloons}, {judge}{more}", (SKY,)),
        ("{look} {sky@balloons}{more}{more}", (SKY,)),
    ),
    (HOW_MANY, "balloons"): (
        ("{judge} {sky@balloons}{more}", (SKY,)),
        ("{counted}: {sky@balloons}{more}{more}", (SKY,)),
        ("{sky@balloons}, {judge}{more}{more}", (SKY,)),
    ),
    (WHICH_WAY, "curvature"): (
        ("{way}{more}{more}", (WAY,)),
        ("{place} {way}, {judge}{more}", (WAY,)),
        ("{judge} {way}{more}{more}", (WAY,)),
    ),
    (WHICH_WAY, "motion"): (
        ("{thing} {going}{more}{more}", (THING, GOING)),
        ("it {going}, {judge}{more}{more}", (GOING,)),
    ),
    (IS_THERE, "vehicle"): (
        ("{says@answer}, {see} {thing}{more}{more}", (THING,)),
        ("{says@answer}: {thing}, {judge}{more}", (THING,)),
    ),
    (IS_THERE, "roadside"): (
        ("{says@answer}, {see} {verge@roadside} {along}{more}{more}", (BESIDE,)),
        ("{says@answer}: {beside}, {judge}{more}", (BESIDE,)),
    ),
}
"""By kind of question and the fact asked for: templates, each with the facts it tells itself."""

RULES: Mapping[str, Sequence[str]] = {
    "see": ("I see", "we see", "here is", "I note", "you see"),
    "scene": ("the scene", "the view", "this clip", "this video"),
    "shows": ("shows", "has", "holds", "gives"),
    "seems": ("is", "seems", "looks", "appears"),
    "must": ("is", "seems", "must be", "may be"),
    "judge": ("I think", "it seems", "I would say", "I guess", "so it seems"),
    "look": ("look", "see", "note", "up there"),
    "counted": ("in all", "all told", "by my count", "all in all"),
    "below": ("below", "under it", "down here", "on the road"),
    "place": ("ahead", "here", "out there", "in front"),
    "join": ("and", "while", "where", "then"),
    "more": ("; {clause}", ", and {clause}", ". {clause}", ", while {clause}", " as {clause}"),
    "thing": ("a {paint@colour} {vehicle@vehicle}", "a {vehicle@vehicle}", "a {size} {paint@colour} {vehicle@vehicle}"),
    "size": ("big", "plain", "solid", "clean", "neat"),
    "paint@red": ("red", "crimson", "scarlet", "ruby"),
    "paint@green": ("green", "jade", "lime", "mint"),
    "paint@blue": ("blue", "navy", "cobalt", "teal"),
    "paint@grey": ("grey", "silver", "slate", "steel"),
    "paint@?": ("moving", "sharp", "bold", "dense"),
    "vehicle@car": ("car", "sedan", "coupe", "taxi"),
    "vehicle@truck": ("truck", "lorry", "rig", "hauler"),
    "vehicle@bus": ("bus", "coach", "shuttle", "minibus"),
    "vehicle@motorcycle": ("motorcycle", "bike", "motorbike", "scooter"),
    "going": ("{moves@motion} {manner}", "{manner} {moves@motion}", "{moves@motion}"),
    "moves@approaching": ("comes closer", "comes near", "draws near", "comes our way"),
    "moves@moving away": ("drives off", "moves off", "pulls off", "goes away"),
    "moves@crossing": ("goes across", "goes past", "cuts across", "moves past"),
    "manner": ("slowly", "calmly", "gently", "fast", "now"),
    "way": ("the {road} {bends@curvature}", "{our} {road} {bends@curvature}"),
    "our": ("our", "this", "a {wide}", "the {wide}"),
    "wide": ("wide", "broad", "long", "paved"),
    "road": ("road", "street", "lane", "track"),
    "bends@straight": ("runs straight", "is straight", "goes straight", "keeps straight"),
    "bends@left": ("bends left", "turns left", "curves left", "veers left"),
    "bends@right": ("bends right", "turns right", "curves right", "veers right"),
    "beside": ("{verge@roadside} {line} the {road}", "{tidy} {verge@roadside} {line} the {road} {along}"),
    "tidy": ("long", "neat", "quiet", "even"),
    "verge@trees": ("trees", "woods", "oaks", "pines"),
    "verge@buildings": ("buildings", "houses", "blocks", "flats"),
    "verge@fence": ("fences", "rails", "bars", "posts"),
    "verge@fields": ("fields", "meadows", "crops", "plains"),
    "line": ("line", "flank", "border", "edge"),
    "along": ("on both sides", "on each side", "all along", "all the way"),
    "sky@none": ("{sky} {void@balloons}", "{above} {sky} {void@balloons}"),
    "sky@one": (
        "{number@balloons} {pale} {ball} {floats} {side@side}",
        "{side@side} {floats} {number@balloons} {ball}",
    ),
    "sky@two": (
        "{number@balloons} {pale} {balls} {float} {side@side}",
        "{side@side} {float} {number@balloons} {balls}",
    ),
    "sky@three": (
        "{number@balloons} {pale} {balls} {float} {side@side}",
        "{side@side} {float} {number@balloons} {balls}",
    ),
    "sky": ("the sky", "the air", "all the sky"),
    "void@none": ("is empty", "is bare", "is clear", "is blank"),
    "number@one": ("one", "a lone", "just one", "only one"),
    "number@two": ("two", "a pair of", "both", "just two"),
    "number@three": ("three", "a trio of", "all three", "just three"),
    "above": ("up above", "up there", "up high", "overhead"),
    "pale": ("pale", "round", "bright", "small", "white"),
    "ball": ("balloon", "ball", "orb", "globe"),
    "balls": ("balloons", "balls", "orbs", "globes"),
    "floats": ("floats", "drifts", "hovers", "hangs"),
    "float": ("float", "drift", "hover", "hang"),
    "side@left": ("on the left", "on our left", "left of us", "to our left"),
    "side@right": ("on the right", "on our right", "right of us", "to our right"),
    "plainly": ("clearly", "still", "now", "just"),
    "when@day": ("by day", "in daylight", "at noon", "in the sun"),
    "when@night": ("by night", "at night", "in the dark", "at dusk"),
    "when@?": ("in view", "just now", "up front", "in motion"),
    "light@day": ("day", "light", "sunny", "noon"),
    "light@night": ("night", "dark", "late", "dusk"),
    "says@yes": ("yes", "indeed", "sure", "true"),
    "says@no": ("no", "nope", "not so", "wrong"),
}

QUESTIONS: Mapping[tuple[str, str], Sequence[str]] = {
    (DESCRIBE, ""): (
        "What is in the scene?",
        "What are the key elements in this scene?",
        "Describe in detail what happened in the scene.",
        "Describe the {view}.",
        "Describe the {view} in detail.",
        "Describe what you see.",
        "What is happening?",
        "What is happening in {this} {view}?",
        "What is going on here?",
        "What do you see?",
        "What can you see in {this} {view}?",
        "What does the {view} show?",
        "What happened?",
        "Tell me about {this} {view}.",
    ),
    (WHAT, "vehicle"): (
        "What kind of {machine} is it?",
        "Which {machine} is in {this} {view}?",
        "What {machine} do you see?",
    ),
    (WHAT, "roadside"): (
        "What is along the {street}side?",
        "What is beside the {street}?",
        "What is next to the {street}?",
    ),
    (WHAT, "colour"): (
        "What {hue} is the {machine}?",
        "Which {hue} does the {machine} have?",
        "What is the {hue} of the {machine}?",
    ),
    (WHAT, "daylight"): (
        "Is it day or night in {this} {view}?",
        "What time of day is it?",
        "What hour does {this} {view} show?",
    ),
    (WHERE, "side"): (
        "Where are the {balls}?",
        "Where do the {balls} {float}?",
        "Where in {this} {view} are the {balls}?",
    ),
    (HOW_MANY, "balloons"): (
        "How many {balls} are there?",
        "How many {balls} do you see?",
        "How many {balls} {float} in {this} {view}?",
    ),
    (WHICH_WAY, "curvature"): (
        "Which way does the {street} {turn}?",
        "Which way does {this} {street} {turn}?",
        "What is the shape of the {street}?",
    ),
    (WHICH_WAY, "motion"): (
        "Which way does the {machine} go?",
        "Which way is the {machine} moving?",
        "How does the {machine} move?",
    ),
    (IS_THERE, "vehicle"): ("Is there a {asked}?", "Is there a {asked} in {this} {view}?", "Do you see a {asked}?"),
    (IS_THERE, "roadside"): ("Are there {asked}?", "Are there {asked} by the {street}?", "Do you see {asked}?"),
}

QUESTION_RULES: Mapping[str, Sequence[str]] = {
    "this": ("this", "the"),
    "view": ("scene", "video", "clip", "view"),
    "machine": ("vehicle", "machine"),
    "street": ("road", "street", "lane"),
    "hue": ("colour", "color", "paint"),
    "balls": ("balloons", "balls", "orbs"),
    "float": ("float", "drift", "hover"),
    "turn": ("curve", "turn", "bend", "go"),
}

ASKED: Mapping[str, Mapping[str, str]] = {
    "vehicle": {"car": "car", "truck": "truck", "bus": "bus", "motorcycle": "motorcycle"},
    "roadside": {"trees": "trees", "buildings": "buildings", "fence": "fences", "fields": "fields"},
}
"""How `{asked}` calls a value in the questions of the kind "is there"."""
