"""Network, sensitive data and tools in the settings: checked at the field, in force at once, and kept."""

import socket
from decimal import Decimal
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from engine import AlarmLimits, EngineSettings
from tests.gui.test_settings_dialog import one_agent, settings_of
from tests.helpers.asking import free_port
from tests.helpers.fake_server import chat
from tests.helpers.model_answers import announcement_answers
from tests.helpers.qt_loop import run_qt
from tests.helpers.window import button, opened, opened_on
from workbench.settings_dialog.dialog import SettingsDialog
from workbench.settings_dialog.masking_page import PatternRow
from workbench.settings_dialog.page import Field

pytestmark = pytest.mark.usefixtures("qapp")

TLS = Path(__file__).parents[1] / "fixtures" / "tls"


def type_text(field: Field, text: str) -> None:
    field.setFocus()
    field.selectAll()
    QTest.keyClicks(field, text) if text else QTest.keyClick(field, Qt.Key.Key_Backspace)
    QTest.keyClick(field, Qt.Key.Key_Return)


def test_a_proxy_is_checked_tried_and_kept(tmp_path: Path) -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            address = f"127.0.0.1:{listening.getsockname()[1]}"
            async with opened(tmp_path, [one_agent(tmp_path)]) as bench:
                dialog = await settings_of(bench)
                page = dialog.network
                dialog.show_page(page)
                type_text(page.proxy, "http://ada:secret@proxy:1")
                assert page.proxy.fault == (
                    "Found “http://***@proxy:1”, expected http://host:port, without user and password."
                )
                assert not page.test.isEnabled()
                type_text(page.proxy, address)
                assert page.proxy.text() == bench.engine.settings.proxy == f"http://{address}"
                bench.click(page.test)
                await bench.until(lambda: page.outcome.text() == "The proxy takes connections.")
                port = free_port()
                type_text(page.proxy, f"127.0.0.1:{port}")
                bench.click(page.test)
                await bench.until(lambda: page.outcome.text().startswith(f"No proxy answers at 127.0.0.1:{port}:"))
                assert page.test.isEnabled()
                saved = EngineSettings(proxy=f"http://127.0.0.1:{port}")
                await bench.until(lambda: EngineSettings.load(bench.folders.engine_settings) == saved)
                type_text(page.proxy, "")
                assert bench.engine.settings.proxy == ""

    run_qt(story(), 60)


def test_a_file_of_certificates_is_checked_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")

    async def story() -> None:
        async with opened(tmp_path, [one_agent(tmp_path)]) as bench:
            dialog = await settings_of(bench)
            page = dialog.network
            dialog.show_page(page)
            for typed, fault in (
                ("ca.pem", "Found “ca.pem”, expected the whole path of a file."),
                (str(tmp_path / "gone.pem"), f"There is no file “{tmp_path / 'gone.pem'}”."),
                (
                    str(tmp_path / "empty.pem"),
                    "“empty.pem” holds no certificate in PEM format (-----BEGIN CERTIFICATE-----).",
                ),
            ):
                type_text(page.ca_file, typed)
                assert page.ca_file.fault == fault
                assert bench.engine.settings.ca_file == ""
            good = tmp_path / "good.pem"
            good.write_bytes((TLS / "localhost.pem").read_bytes())
            type_text(page.ca_file, str(good))
            assert bench.engine.settings.ca_file == str(good)
            assert page.certificates.text() == "1 certificate"
            good.unlink()
            bench.desk.options.changed.emit()
            assert page.ca_file.note.text == f"There is no file “{good}”."

    run_qt(story(), 60)


def test_patterns_are_tried_as_they_are_typed_and_mask_what_is_sent(tmp_path: Path) -> None:
    flow = one_agent(tmp_path)
    flow.write_text(flow.read_text().replace("Write a line.", "Write to ada@a.org and bob@b.org of falcon-7."))

    async def story() -> None:
        async with opened_on(chat("Told."), tmp_path / "home", [flow]) as (bench, server):
            dialog = await settings_of(bench)
            page = dialog.masking
            dialog.show_page(page)
            page.scope.setCurrentIndex(page.scope.findData("all"))
            page.scope.activated.emit(page.scope.currentIndex())
            page.style_choice.setCurrentIndex(page.style_choice.findData("stars"))
            page.style_choice.activated.emit(page.style_choice.currentIndex())
            QTest.keyClicks(page.domains.line, "nowhere")
            QTest.keyClick(page.domains.line, Qt.Key.Key_Return)
            assert "expected a domain" in page.domains.line.fault
            page.domains.line.clear()
            QTest.keyClicks(page.domains.line, "@B.org")
            QTest.keyClick(page.domains.line, Qt.Key.Key_Return)
            assert page.domains.entries == ("b.org",)
            bench.click(page.add_pattern)
            row = page.rows.bodies()[0]
            assert isinstance(row, PatternRow)
            type_text(row.pattern, "re:falcon-[")
            assert row.pattern.fault.startswith("This is no expression: unterminated character set")
            assert bench.engine.settings.sensitive_patterns == {}
            type_text(row.pattern, "re:falcon-\\d")
            type_text(row.replacement, "bird")
            assert bench.engine.settings.sensitive_patterns == {"re:falcon-\\d": "bird"}
            page.trial.setPlainText("ada@a.org, bob@b.org, falcon-7")
            assert page.masked.toPlainText() == "***, bob@b.org, bird"
            assert page.masked.extraSelections()
            dialog.reject()
            await bench.reactivate()
            assert await bench.run_to_end() == "finished"
            assert server.requests[0].json()["messages"][-1]["content"] == "Write to *** and bob@b.org of bird."

    run_qt(story(), 60)


def test_patterns_change_places_and_go(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, [one_agent(tmp_path)]) as bench:
            bench.desk.options.change(sensitive_patterns={"a": "1", "b": "2"})
            dialog = await settings_of(bench)
            page = dialog.masking
            dialog.show_page(page)
            row = page.rows.bodies()[1]
            assert isinstance(row, PatternRow)
            row.pattern.setFocus()
            bench.press("Alt+Up", row.pattern)
            assert list(bench.engine.settings.sensitive_patterns) == ["b", "a"]
            type_text(row.pattern, "b")
            assert row.pattern.fault == "This pattern is in the list already."
            bench.click(page.rows.rows[0].remove)
            assert bench.engine.settings.sensitive_patterns == {"a": "1"}

    run_qt(story(), 60)


def test_folders_and_hosts_of_tools_are_added_and_removed(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(tmp_path, [one_agent(tmp_path)]) as bench:
            dialog = await settings_of(bench)
            page = dialog.tools
            dialog.show_page(page)
            for part, typed, fault in (
                (page.folders, "x", "Found “x”, expected the whole path of a folder."),
                (page.folders, str(tmp_path / "gone"), f"There is no folder “{tmp_path / 'gone'}”."),
                (
                    page.hosts,
                    "https://a.org/x",
                    "Found “https://a.org/x”, expected a host such as example.org or a:8080.",
                ),
            ):
                part.line.clear()
                QTest.keyClicks(part.line, typed)
                bench.click(part.add)
                assert part.line.fault == fault
            page.folders.take(str(tmp_path))
            page.hosts.take("A.org:81")
            page.hosts.take("a.org:81")
            assert page.hosts.line.fault == "“a.org:81” is in the list already."
            page.hosts.take("b.org")
            settings = bench.engine.settings
            assert settings.tool_folders == (str(tmp_path),)
            assert settings.tool_hosts == ("a.org:81", "b.org")
            page.hosts.list.setCurrentRow(0)
            page.hosts.list.setFocus()
            QTest.keyClick(page.hosts.list, Qt.Key.Key_Delete)
            assert bench.engine.settings.tool_hosts == ("b.org",)
            page.folders.list.setCurrentRow(0)
            bench.click(page.folders.remove)
            assert bench.engine.settings.tool_folders == ()

    run_qt(story(), 60)


def test_a_run_that_costs_more_than_wanted_is_told_and_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(announcement_answers, tmp_path) as (bench, _server):
            dialog = await settings_of(bench)
            page = dialog.alarms
            dialog.show_page(page)
            assert {key: field.text() for key, field in page.fields.items()} == {
                "run_cost": "",
                "shortened_percent": "",
                "error_percent": "20",
                "slow_seconds": "30",
            }
            type_text(page.fields["error_percent"], "120")
            assert "from 1 to 100" in page.fields["error_percent"].fault
            type_text(page.fields["error_percent"], "")
            type_text(page.fields["run_cost"], "0.0001")
            wanted = EngineSettings(alarms=AlarmLimits(run_cost=Decimal("0.0001"), error_percent=0))
            await bench.until(lambda: EngineSettings.load(bench.folders.engine_settings) == wanted)
            dialog.reject()
            await bench.reactivate()
            assert await bench.run_to_end() == "finished"
            await bench.until(lambda: len(bench.banner_texts()) == 1)
            (told,) = bench.banner_texts()
            assert told.startswith("The run of Release announcement has cost $0.000")
            assert told.endswith("You want to be told above $0.0001. It goes on.")
            bench.click(button(bench.banners[0], "Settings"))
            await bench.until(lambda: bench.window.findChild(SettingsDialog) is not None)
            found = bench.window.findChild(SettingsDialog)
            assert isinstance(found, SettingsDialog)
            assert found.list.currentItem().text() == "Alarms"

    run_qt(story(), 60)


def test_the_environment_is_shown_in_the_title_and_chooses_the_profile(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened_on(chat("Told."), tmp_path / "home", [one_agent(tmp_path)]) as (bench, server):
            folder = tmp_path / "home" / "profiles.prod"
            folder.mkdir()
            (folder / "fake.properties").write_text("modelName=large\n")
            dialog = await settings_of(bench)
            page = dialog.environment
            dialog.show_page(page)
            type_text(page.environment, "a/b")
            assert page.environment.fault == "Found “a/b”, expected letters, digits, - and _, at most 40 of them."
            type_text(page.environment, "prod")
            assert str(folder) in page.where.text()
            assert bench.window.windowTitle() == "Test flow[*] – Flow Workbench – prod"
            page.prompts.setCurrentIndex(page.prompts.findData("zh"))
            page.prompts.activated.emit(page.prompts.currentIndex())
            assert bench.engine.settings.prompt_language == "zh"
            dialog.reject()
            await bench.reactivate()
            assert await bench.run_to_end() == "finished"
            assert server.requests[0].json()["model"] == "large"
            bench.desk.options.change(environment="")
            assert bench.window.windowTitle() == "Test flow[*] – Flow Workbench"

    run_qt(story(), 60)
