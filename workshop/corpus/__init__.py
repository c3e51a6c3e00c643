"""The pretraining corpus: many sources of dialogues made into one training set, checked against what is evaluated."""
