"""Notifications: channels of users, the outbox, and how messages are sent."""
