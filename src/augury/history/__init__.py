"""What was true, and when we knew: events as they come → accepted versions, and complex events among them."""
