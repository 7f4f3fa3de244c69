"""The contracts as test suites: what every operator, source and iterator must pass, third parties' included."""
