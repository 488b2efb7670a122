"""Card and account numbers, recognised by their check digits."""

from __future__ import annotations

from hermes.safety.secret_pattern import Pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_CARD = Pattern(r"(?<![\w.+/=-])(?:[3-6]\d{3}|2[2-7]\d\d)(?:[ -]?\d){9,15}(?![\w./=]|-\d)")
_IBAN = Pattern(r"(?<![A-Za-z0-9])[A-Z]{2}\d\d(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])")
# Sixteen digits in a row have a right check digit one time in ten; these words say what they are instead.
_OTHER_NUMBER = Pattern(
    r"(?:order|invoice|track(?:ing)?|ticket|shipment|parcel|phone|tel|fax|isbn|ean|gtin|imei|epoch|timestamp|build|serial"
    r"|snowflake|message|channel|user|id|ids|number|no|nr)\W{0,4}\Z",
    ignores_case=True,
)
_CARD_WORD = Pattern(r"card|visa|master|amex|credit|debit|pan\b|payment", ignores_case=True)
_LENGTHS = {"34": (15,), "37": (15,), "36": (14,), "38": (14,), "30": (14,)}
_USUAL_LENGTHS = (16, 19)
_IBAN_LENGTHS = range(15, 35)


def find_card_numbers(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _CARD.finditer(text):
        digits = match.group().replace(" ", "").replace("-", "")
        if not _is_card(digits) or len(set(digits)) == 1:
            continue
        before = text[max(0, match.start() - 40) : match.start()]
        if _OTHER_NUMBER.search(before) and not _CARD_WORD.search(before):
            continue
        yield "card number", match.start(), match.end()


def find_ibans(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _IBAN.finditer(text):
        account = match.group().replace(" ", "")
        turned = account[4:] + account[:4]
        if len(account) in _IBAN_LENGTHS and int("".join(str(int(character, 36)) for character in turned)) % 97 == 1:
            yield "bank account number", match.start(), match.end()


def _is_card(digits: str) -> bool:
    if len(digits) not in _LENGTHS.get(digits[:2], _USUAL_LENGTHS):
        return False
    doubled = [int(digit) * 2 for digit in digits[-2::-2]]
    return (sum(map(int, digits[-1::-2])) + sum(sum(divmod(number, 10)) for number in doubled)) % 10 == 0
