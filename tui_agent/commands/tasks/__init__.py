"""A suite of small tasks with faults in their way, worked on by the whole agent, with planning and without."""
