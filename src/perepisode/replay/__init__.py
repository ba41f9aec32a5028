"""Exact replays of evaluated episodes from the keys and actions in their table, and a page to watch them.

selection      which episodes to replay, and which agents played them
episode        the replay: what happened in each step, and whether it matches the row
watch          replays of the worst episodes, or of those in which an agent abstained, as a page
page, captions, frames, timeline, penalty_trace    the parts of the page: text, what happens at violations, pictures,
                                                   drawings, the objective's penalty
"""
