"""Skills: procedures the agent keeps as files."""

REQUIREMENTS = {
    "skills.list": (
        "skills_list names, describes and categorises every skill, by category if asked",
        "004 Skills index",
    ),
    "skills.view": (
        "skill_view opens a skill and its linked files, with what it needs and what is missing",
        "004 Skills index",
    ),
    "skills.create": ("skill_manage create writes a valid SKILL.md, privately and in one step", "003 Core Concepts"),
    "skills.patch": ("patch replaces a unique text; a failure shows what is there", "003 Core Concepts"),
    "skills.edit": (
        "edit, write_file and remove_file change a skill; the result names what changed",
        "003 Core Concepts",
    ),
    "skills.archive": ("A deleted skill or file is archived, never destroyed", "product"),
    "skills.rules": ("Names, sizes and frontmatter are checked before anything is written", "003 Core Concepts"),
    "skills.escapes": ("No name, path or link reaches outside the skills directory", "product"),
    "skills.scan": (
        "Texts that look like an attack are neither written nor opened nor listed",
        "003 Security and Safety",
    ),
    "skills.secrets": ("A skill with a secret in it is refused", "product"),
    "skills.parts": ("Of a long text with a passage that looks like an attack, the rest is opened", "product"),
    "skills.any_input": ("Whatever a model sends, the answer is a result and never an exception", "product"),
    "skills.usage": ("Opening and changing a skill is counted, also by several processes at once", "product"),
    "skills.duplicates": ("Two skills of one name are both listed with a note and opened by category/name", "product"),
    "skills.index": ("The prompt's index is compact, sorted, and re-reads only what changed", "004 Skills index"),
    "skills.platforms": ("A skill for other platforms is out of the prompt's index and says so in the list", "product"),
    "skills.folders": ("Skills of other folders are read and never changed", "product"),
    "skills.settings": ("The settings about skills have their effect", "product"),
}
