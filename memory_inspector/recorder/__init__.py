"""Sessions of agents that run elsewhere: their observed calls are recorded here, without changes to their code."""
