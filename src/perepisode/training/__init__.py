"""PPO with a recurrent network, which trains a population of runs in one program."""
