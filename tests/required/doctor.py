"""`hermes doctor`: the real thing, exercised."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "doctor.sound": ("a sound home passes, and a message was really written and found", "product"),
    "doctor.privacy": ("files that others may read are named, and made private by --fix", "product"),
    "doctor.settings": ("wrong settings are told with file and line, and the other checks go on", "product"),
    "doctor.memory": ("stored threats and files edited in another form are told with the remedy", "product"),
    "doctor.damage": ("a damaged database is told with the command that repairs it", "product"),
    "doctor.reach": ("a model that does not answer or refuses the key is told with the remedy", "product"),
}
