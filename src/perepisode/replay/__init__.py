"""Episodes lived again from the keys and actions in their table, and a page to watch them on.

source     which episodes, and what is known of the agents that played them
episode    an episode again: what happened at each step, and whether it is what its row says
watch      the worst of them, or those that show restraint, as a page
page, frames, timeline, pressure    what that page shows: words, pictures, lines, and what the objective made of it
"""
