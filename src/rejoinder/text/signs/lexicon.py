"""Words that rules of polarity name: auxiliaries, negators, wishes, ends of clauses."""

from __future__ import annotations

_AUXILIARY_WORDS = """
is are was were has have had do does did will would can could should must may might be been being am
"""
_SKIPPED_WORDS = """
a an the my your our his her its their this that these those it me you us him them i we he she they
to of in for at by from with and or any some all ever even really actually just yet still please so
very too again now today already also only more much many there here as than if when someone
anything everything want wants wanted need needs needed wish wishes plan plans ask asked asking
intend intends going gonna wanna mean meant think thinks believe believes let make makes made try
tries tried tell told say said allowed supposed on off out up back before after get have re longer
unless anymore
"""
_UNSURE_WORDS = """
sure know like agree clear understand aware certain remember recall problem worry mind hesitate
matter care possible able
"""
_QUESTION_WORDS = "when where has have had did is are was were will does which who"
_WISHING_WORDS = "i we please to but and rather better prefer like decided"  # before "do not"
_WISH_WORDS = "want wants need please would like with"
_ENDING_STEMS = "cancel end stop quit terminat return rid"  # what ends what else a text names
_STOP_WORDS = "stop undo lift withdraw revoke reverse ignore"
_OPENING_WORDS = "and that so sure think as since know luckily fortunately"  # before a clause
_PHRASE_WORDS = """
a an the my our your his her its their this that these those some any such very really too so much
many more only just still already again now also even
"""
_PLACED_WORDS = "on in at with the my our your a an"  # between "is" and what it is at
_NOT_GOT_WORDS = """
to into in on off out through up at by with from over around why what how when where which rid
"""
_MODAL_WORDS = "to can could may might should shall would will must do does did not"
_BARE_WORDS = "please do not no way but so it that this"  # "please do not": of the sentence before
NOBODY = frozenset(["nobody", "nothing"])  # deny a verb where they are its subject
NEGATORS = frozenset(["not", "no", "without"]) | NOBODY
ASKED = (["you"], ["i"], ["we"])
SELF = frozenset(["i", "we"])
THOUGHT = frozenset(["think", "believe"])
WANTED = frozenset(["want", "wants", "need", "wish", "like"])
BE = frozenset(["is", "are", "am", "was", "were", "been"])
MUST = frozenset(["must", "should", "shall", "need"])
AUXILIARIES = frozenset(_AUXILIARY_WORDS.split())
SKIPPED = AUXILIARIES | frozenset(_SKIPPED_WORDS.split())
UNSURE = frozenset(_UNSURE_WORDS.split())
QUESTION = frozenset(_QUESTION_WORDS.split())
WISH = frozenset(_WISH_WORDS.split())
ENDING = frozenset(_ENDING_STEMS.split())
STOP = frozenset(_STOP_WORDS.split())
BARE = frozenset(_BARE_WORDS.split())
OPENING = frozenset([None, *_OPENING_WORDS.split()])
PHRASE = frozenset(_PHRASE_WORDS.split())  # before a noun
PLACED = frozenset(_PLACED_WORDS.split())
NOT_GOT = frozenset(_NOT_GOT_WORDS.split())  # behind "get" where nothing is received
HAVING = frozenset(["have", "has", "had", "got", "received"])
MODALS = frozenset(_MODAL_WORDS.split())
ABLE = frozenset(["can", "could"])
ENDS = frozenset([".", ",", ";", ":", "!", "?", "but", "because", "although", "instead", "however"])
WISHING = frozenset([None, *ENDS, *_WISHING_WORDS.split()])
SENTENCE_ENDS = frozenset([".", "!", "?"])
DETERMINERS = frozenset(["the", "my", "our", "this", "that"])
PRONOUNS = frozenset(["it", "he", "she", "something"])  # before a verb's third person
CLAUSES = frozenset(["i", "you", "we", "they", "it", "he", "she", "that", "which", "who"])
SWITCHED = frozenset(["turn", "switch", "toggle"])
ENTERED = frozenset(["log", "sign"])
ON_OFF = ("on", "off")
LACKED = frozenset(["hav", "get", "receiv", "see", "find", "hear"])  # stems
INTENT = frozenset(["purpose", "intentionally", "deliberately", "intention"])  # "not on purpose"
SEEMING = frozenset(["seem", "appear"])
NEXT_CLAUSE = frozenset(["can", "could", "how"])  # without a comma before it
ASKING = frozenset(["how", "what", "why", "whether", "if", "whose"]) | QUESTION - AUXILIARIES
STRESSED = frozenset(["do", "does", "did"])
TURNED = frozenset(["now", "again", "finally"])  # what was not so is so
EXCEPTING = ("but", "not")
MEASURES = (["much"], ["many"], ["long"], ["often"], ["far"])  # behind "how", at a question's start
TIME_WORDS = frozenset(["before", "after"])
