"""Fifty invented chats, and the same chats as files of each form."""

import csv
import datetime
import email.message
import email.utils
import io
import json
import mailbox
import random
import zipfile
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tests.corpora.readers.workbook import workbook

AGENT = "Ada Shop"
NAMES = ["Bea Lang", "Çem Öz", "Dan", "Eva-Maria", "Fritz O'Neil"]
ASKED = ["Hello!", "Where is my order?", "I have waited for two weeks.", "Is there a blue one?", "Können Sie helfen?",
         "My bill is wrong, it says 12,50 €", "Thank you very much!", "And by when?", "ok 👍",
         "No: not the red one"]  # fmt: skip
TOLD = ["Let me look that up.", "It was sent yesterday.", "We are sorry to hear that.", "Yes; we have it in blue, too.",
        "You are welcome.", "By Friday, I think.", "Could you tell me your number?", "Bitte, gern!"]  # fmt: skip
START = datetime.datetime(2024, 3, 1, 9, 0, tzinfo=datetime.UTC)


class Said(NamedTuple):
    author: str
    text: str
    time: datetime.datetime

    @property
    def agent(self):
        return self.author == AGENT

    @property
    def seconds(self):
        return int(self.time.timestamp())


def make_chats(count=50):
    draw = random.Random(7)
    chats = []
    for number in range(count):
        customer = f"{NAMES[number % len(NAMES)]} {number}"
        time = START + datetime.timedelta(days=number)
        chat = []
        for turn in range(draw.randint(2, 7)):
            author, texts = (AGENT, TOLD) if turn % 2 else (customer, ASKED)
            for _ in range(draw.choice([1, 1, 1, 2])):
                time += datetime.timedelta(seconds=draw.randint(60, 600))
                chat.append(Said(author, draw.choice(texts), time))
        chats.append(chat)
    return chats


CHATS = make_chats()


def customer(chat):
    return next(said.author for said in chat if not said.agent)


def wanted(chats=None):
    """Context and response of every example, as each reader should give them."""
    examples = []
    for chat in chats or CHATS:
        turns = []
        for said in chat:
            if turns and turns[-1][0] == said.author:
                turns[-1][1] += f" {said.text}"
            else:
                turns.append([said.author, said.text])
        texts = [text for _, text in turns]
        examples += [
            (tuple(texts[:place][-11:]), text)
            for place, (author, text) in enumerate(turns)
            if place and author == AGENT
        ]
    return sorted(examples)


def iso(said):
    return said.time.isoformat().replace("+00:00", "Z")


def lines(records):
    return "".join(f"{json.dumps(record)}\n" for record in records)


def whatsapp_android():
    for number, chat in enumerate(CHATS):
        text = "01/03/2024, 08:00 - Messages and calls are end-to-end encrypted. Tap to learn more.\n"
        text += "".join(f"{said.time:%d/%m/%Y, %H:%M} - {said.author}: {said.text}\n" for said in chat)
        yield f"WhatsApp Chat with {customer(chat)}.txt", text
        del number


def whatsapp_iphone():
    for chat in CHATS:
        text = f"[01.03.24, 08:00:00] {customer(chat)}: \u200eMessages and calls are end-to-end encrypted.\r\n"
        text += "".join(f"[{said.time:%d.%m.%y, %H:%M:%S}] {said.author}: {said.text}\r\n" for said in chat)
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as file:
            file.writestr("_chat.txt", text)
            file.writestr("00000001-PHOTO.jpg", b"\xff\xd8")
        yield f"WhatsApp Chat - {customer(chat)}.zip", data.getvalue()


def telegram_chat(number, chat):
    joined = {"id": 0, "type": "service", "date": "2024-03-01T08:00:00", "action": "phone_call", "text": ""}
    return {
        "name": customer(chat), "type": "personal_chat", "id": number,
        "messages": [joined] + [
            {"id": place, "type": "message", "date": f"{said.time:%Y-%m-%dT%H:%M:%S}",
             "date_unixtime": str(said.seconds), "from": said.author,
             "from_id": "user1" if said.agent else f"user{number + 9}",
             "text": said.text if place % 2 else [{"type": "bold", "text": said.text[:2]}, said.text[2:]],
             "text_entities": []}
            for place, said in enumerate(chat)],
    }  # fmt: skip


def telegram():
    whole = {"about": "x", "personal_information": {"user_id": 1, "first_name": "Ada"},
             "chats": {"about": "y", "list": [telegram_chat(*each) for each in enumerate(CHATS)]}}  # fmt: skip
    yield "result.json", json.dumps(whole, ensure_ascii=False, indent=1)


def telegram_single():
    for number, chat in enumerate(CHATS):
        yield f"{number}/result.json", json.dumps(telegram_chat(number, chat), indent=1)


def messenger():
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for number, chat in enumerate(CHATS):
            record = {
                "participants": [{"name": AGENT}, {"name": customer(chat)}], "title": customer(chat),
                "thread_path": f"inbox/{number}",
                "messages": [{"sender_name": said.author, "timestamp_ms": said.seconds * 1000, "content": said.text}
                             for said in reversed(chat)],
            }  # fmt: skip
            text = json.dumps(record, ensure_ascii=False).encode().decode("latin-1")
            file.writestr(f"messages/inbox/{number}/message_1.json", json.dumps(json.loads(text, strict=False)))
    yield "facebook.zip", data.getvalue()


def telegram_page(chat):
    pieces = []
    earlier = None
    for said in chat:
        joined = said.author == earlier
        name = "" if joined else f'<div class="from_name">\n{said.author}\n</div>'
        pieces.append(
            f'<div class="message default clearfix{" joined" if joined else ""}"><div class="body">'
            f'<div class="pull_right date details" title="{said.time:%d.%m.%Y %H:%M:%S} UTC+00:00">9:00</div>'
            f'{name}<div class="text">\n{said.text.replace("&", "&amp;")}\n</div></div></div>'
        )
        earlier = said.author
    service = '<div class="message service"><div class="body details">1 March 2024</div></div>'
    header = f'<div class="page_header"><div class="content"><div class="text bold">{customer(chat)}</div></div></div>'
    return f'<!DOCTYPE html><html><body>{header}<div class="history">{service}{"".join(pieces)}</div></body></html>'


def telegram_html():
    for number, chat in enumerate(CHATS):
        yield f"{number}/messages.html", telegram_page(chat)


def slack():
    users = {}
    files = {"channels.json": "[]"}
    for number, chat in enumerate(CHATS):
        days = {}
        for said in chat:
            user = users.setdefault(said.author, f"U{len(users)}")
            text = said.text.replace("&", "&amp;")
            days.setdefault(f"{said.time:%Y-%m-%d}", []).append(
                {"type": "message", "user": user, "text": text, "ts": f"{said.seconds}.000100"})  # fmt: skip
        for day, messages in days.items():
            joined = {"type": "message", "subtype": "channel_join", "user": "U1", "text": "x", "ts": "1.0"}
            files[f"help-{number}/{day}.json"] = json.dumps([joined, *messages])
    files["users.json"] = json.dumps([{"id": user, "name": "x", "profile": {"real_name": name, "display_name": ""}}
                                      for name, user in users.items()])  # fmt: skip
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for name, text in files.items():
            file.writestr(name, text)
    yield "export.zip", data.getvalue()


def discord():
    for number, chat in enumerate(CHATS):
        messages = [{"id": "0", "type": "GuildMemberJoin", "timestamp": "2024-03-01T08:00:00+00:00",
                     "content": "Joined.", "author": {"id": "1", "name": "x"}}]  # fmt: skip
        messages += [{"id": str(said.seconds), "type": "Default", "timestamp": said.time.isoformat(),
                      "content": said.text, "author": {"id": "1", "name": said.author, "nickname": said.author},
                      "attachments": []}
                     for said in chat]  # fmt: skip
        record = {"guild": {"id": "1", "name": "g"}, "channel": {"id": "2", "name": "c"}, "messages": messages,
                  "messageCount": len(messages)}  # fmt: skip
        yield f"channel-{number}.json", json.dumps(record, indent=2)


def table_rows():
    rows = [[f"T{number}", said.author, said.text, f"{said.time:%d.%m.%Y %H:%M:%S}"]
            for number, chat in enumerate(CHATS) for said in chat]  # fmt: skip
    random.Random(1).shuffle(rows)
    return [["Ticket ID", "Sender", "Message", "Created at"], *rows]


def delimited(rows, delimiter):
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(rows)
    return text.getvalue()


def messages_csv():
    yield "messages.csv", delimited(table_rows(), ";").encode("utf-16")


def messages_xlsx():
    yield "messages.xlsx", workbook(table_rows())


def messages_parquet():
    names, *rows = table_rows()
    data = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows]), data)
    yield "messages.parquet", data.getvalue()


def messages_jsonl():
    names, *rows = table_rows()
    yield "messages.jsonl", lines(dict(zip(names, row, strict=True)) for row in rows)


def discord_csv():
    for number, chat in enumerate(CHATS):
        rows = [["AuthorID", "Author", "Date", "Content", "Attachments", "Reactions"]]
        rows += [["1", said.author, said.time.isoformat(), said.text, "", ""] for said in chat]
        yield f"{number}.csv", delimited(rows, ",")


def zendesk():
    yield "tickets.json", lines(
        {"id": number, "subject": "x", "requester": {"id": number + 9, "name": customer(chat)}, "comments": [
            {"id": 1, "author_id": 5, "body": "an internal note", "public": False, "created_at": iso(chat[0])},
            *({"id": said.seconds, "author_id": 5 if said.agent else number + 9, "body": f"**{said.text}**",
               "plain_body": said.text, "public": True, "created_at": iso(said)} for said in chat)]}
        for number, chat in enumerate(CHATS))  # fmt: skip


def zendesk_api():
    for number, chat in enumerate(CHATS):
        users = [{"id": 5, "name": AGENT, "role": "admin"}, {"id": 6, "name": customer(chat), "role": "end-user"}]
        comments = [{"id": said.seconds, "author_id": 5 if said.agent else 6, "html_body": f"<p>{said.text}</p>",
                     "plain_body": said.text, "public": True, "created_at": iso(said)} for said in chat]  # fmt: skip
        yield f"{number}.json", json.dumps({"comments": comments, "users": users, "count": len(chat)}, indent=1)


def intercom():
    def author(said):
        return {"type": "admin" if said.agent else "user", "id": said.author, "name": said.author}

    yield "conversations.jsonl", lines(
        {"type": "conversation", "id": str(number), "created_at": chat[0].seconds,
         "source": {"type": "conversation", "body": f"<p>{chat[0].text}</p>", "author": author(chat[0])},
         "conversation_parts": {"type": "conversation_part.list", "conversation_parts": [
             {"part_type": "note", "body": "<p>hidden</p>", "author": {"type": "admin"}, "created_at": 1},
             {"part_type": "assignment", "body": None, "author": {"type": "bot"}, "created_at": 1},
             *({"part_type": "comment", "body": f"<p>{said.text}</p>", "author": author(said),
                "created_at": said.seconds} for said in chat[1:])]}}
        for number, chat in enumerate(CHATS))  # fmt: skip


def chatwoot_messages(number, chat):
    return [
        {"id": 1, "content": "was assigned", "message_type": 2, "created_at": 1, "conversation_id": number},
        {"id": 2, "content": "hidden", "message_type": 1, "private": True, "created_at": 1, "conversation_id": number},
        *({"id": said.seconds, "content": said.text, "message_type": 1 if said.agent else 0, "private": False,
           "created_at": said.seconds, "conversation_id": number,
           "sender": {"name": said.author, "type": "user" if said.agent else "contact"}} for said in chat),
    ]  # fmt: skip


def chatwoot():
    yield "messages.jsonl", lines({"meta": {"labels": []}, "payload": chatwoot_messages(*each)}
                                  for each in enumerate(CHATS))  # fmt: skip


def chatwoot_conversations():
    conversations = [{"id": number, "messages": chatwoot_messages(number, chat)} for number, chat in enumerate(CHATS)]
    yield "all.json", json.dumps(conversations)


def freshdesk():
    yield "tickets.jsonl", lines(
        {"id": number, "description": f"<div>{chat[0].text}</div>", "description_text": chat[0].text, "requester_id": 9,
         "requester": {"id": 9, "name": customer(chat)}, "created_at": iso(chat[0]), "conversations": [
             {"body_text": "hidden", "incoming": False, "private": True, "user_id": 5, "created_at": iso(chat[0])},
             *({"body": f"<div>{said.text}</div>", "body_text": said.text, "incoming": not said.agent, "private": False,
                "user_id": 5 if said.agent else 9, "created_at": iso(said)} for said in chat[1:])]}
        for number, chat in enumerate(CHATS))  # fmt: skip


def freshdesk_export():
    yield "Tickets0.json", json.dumps([
        {"helpdesk_ticket": {"display_id": number, "description": chat[0].text, "requester_id": 9,
                             "requester_name": customer(chat), "created_at": iso(chat[0]), "notes": [
            {"body": said.text, "incoming": not said.agent, "private": False, "deleted": False,
             "user_id": 5 if said.agent else 9, "created_at": iso(said)} for said in chat[1:]]}}
        for number, chat in enumerate(CHATS)])  # fmt: skip


def twitter():
    rows = [["tweet_id", "author_id", "inbound", "created_at", "text", "response_tweet_id", "in_response_to_tweet_id"]]
    number = 0
    for chat in CHATS:
        for place, said in enumerate(chat):
            number += 1
            text = f"@{'115712' if said.agent else 'AdaShop'} {said.text}".replace("&", "&amp;")
            rows.append([number, "AdaShop" if said.agent else customer(chat), str(not said.agent),
                         f"{said.time:%a %b %d %H:%M:%S +0000 %Y}", text, "", number - 1 if place else ""])  # fmt: skip
    yield "twcs.csv", delimited(rows, ",")


def mbox(tmp_path):
    path = tmp_path / "Support.mbox"
    box = mailbox.mbox(path)
    number = 0
    for chat in CHATS:
        earlier = []
        for said in chat:
            number += 1
            mail = email.message.EmailMessage()
            address = "help@x.org" if said.agent else f"{customer_address(chat)}@x.org"
            mail["From"] = email.utils.formataddr((said.author, address))
            mail["Subject"] = "Re: My order" if earlier else "My order"
            mail["Date"] = said.time
            mail["Message-ID"] = f"<{number}@x.org>"
            if earlier:
                mail["In-Reply-To"] = earlier[-1]
                mail["References"] = " ".join(earlier)
            quoted = f"\n\nOn Fri, 1 Mar 2024 at 09:00, {AGENT} <help@x.org> wrote:\n> Something\n> else\n"
            mail.set_content(f"{said.text}\n\n-- \n{said.author}\nPhone 123{quoted if earlier else ''}")
            earlier.append(mail["Message-ID"])
            box.add(mail)
    box.close()
    yield path.name, path.read_bytes()


def customer_address(chat):
    return "c" + customer(chat).rpartition(" ")[2]


def sharegpt():
    yield "chats.json", json.dumps([
        {"id": str(number), "conversations": [{"from": "system", "value": "Be kind."}] + [
            {"from": "gpt" if said.agent else "human", "value": said.text} for said in chat]}
        for number, chat in enumerate(CHATS)], indent=1)  # fmt: skip


def openai():
    yield "chats.jsonl", lines(
        {"messages": [{"role": "system", "content": "Be kind."}] + [
            {"role": "assistant" if said.agent else "user",
             "content": said.text if place % 2 else [{"type": "text", "text": said.text}]}
            for place, said in enumerate(chat)]}
        for chat in CHATS)  # fmt: skip


def chatgpt():
    conversations = []
    for chat in CHATS:
        mapping = {"root": {"id": "root", "message": None, "parent": None, "children": ["0"]},
                   "other": {"id": "other", "parent": "root", "children": [],
                             "message": {"author": {"role": "user"}, "content": {"parts": ["another"]}}}}  # fmt: skip
        for place, said in enumerate(chat):
            mapping[str(place)] = {
                "id": str(place), "parent": str(place - 1) if place else "root", "children": [],
                "message": {"author": {"role": "assistant" if said.agent else "user"}, "create_time": said.seconds,
                            "content": {"content_type": "text", "parts": [said.text]}}}  # fmt: skip
        conversations.append({"title": "x", "create_time": 1.0, "mapping": mapping, "current_node": str(len(chat) - 1)})
    yield "conversations.json", json.dumps(conversations)


def rasa_trackers():
    yield "trackers.jsonl", lines(
        {"sender_id": str(number), "events": [
            {"event": "action", "name": "action_session_start", "timestamp": 1.0},
            {"event": "session_started", "timestamp": 1.0},
            *({"event": "bot" if said.agent else "user", "text": said.text, "timestamp": float(said.seconds)}
              for said in chat)]}
        for number, chat in enumerate(CHATS))  # fmt: skip


def spoken_lines(chat):
    return "".join(
        f"[{said.time:%H:%M}] {said.author} ({'Support' if said.agent else 'Customer'}): {said.text}\n" for said in chat
    )


def transcript_paragraphs():
    yield "chats.txt", "\n".join(map(spoken_lines, CHATS))


def transcript_rules():
    text = "-----\n".join(map(spoken_lines, CHATS))
    yield "chats.txt", text.replace(f"{AGENT} (Support)", "**Agent**").replace("]", "] -").replace(". ", ".\n")


def transcript_table():
    rows = io.StringIO()
    table = csv.writer(rows)
    table.writerow(["ticket_id", "transcript", "rating"])
    table.writerows([number, spoken_lines(chat), 5] for number, chat in enumerate(CHATS))
    yield "tickets.csv", rows.getvalue()


def dialogues_json():
    chats = [
        {"dialogue": [{"speaker": "agent" if said.agent else "customer", "text": said.text} for said in chat]}
        for chat in CHATS
    ]
    yield "chats.json", json.dumps(chats)


FORMS = {
    "transcript": [transcript_paragraphs, transcript_rules],
    "transcript-table": [transcript_table],
    "whatsapp": [whatsapp_android, whatsapp_iphone],
    "telegram": [telegram, telegram_single],
    "messenger": [messenger],
    "telegram-html": [telegram_html],
    "slack": [slack],
    "discord": [discord],
    "messages": [messages_csv, messages_xlsx, messages_parquet, messages_jsonl, discord_csv],
    "zendesk": [zendesk, zendesk_api],
    "intercom": [intercom],
    "chatwoot": [chatwoot, chatwoot_conversations],
    "freshdesk": [freshdesk, freshdesk_export],
    "twitter": [twitter],
    "mailbox": [mbox],
    "chat-json": [sharegpt, openai, chatgpt, dialogues_json],
    "rasa-trackers": [rasa_trackers],
}
UNMARKED = {discord, discord_csv}  # files of two people that do not say who answers


def write_files(folder, make):
    """Write the files of a form; return their paths."""
    made = make(folder) if make is mbox else make()
    paths = []
    for name, content in made:
        path = folder / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        paths.append(path)
    return paths
