"""Drawing that several pages share: cards, drawers, dialogs, toasts."""
