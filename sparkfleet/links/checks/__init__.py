"""Static checks of the fabric, from the facts of all hosts; pure."""
