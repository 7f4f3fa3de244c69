"""Input hosts: other machines that compute chunks of the host part of a plan."""
