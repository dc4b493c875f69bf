"""Sites: the agent that asks one for allocations, and the pilot that is the worker in an allocation."""
