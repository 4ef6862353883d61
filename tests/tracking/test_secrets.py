from rlhf_ray.tracking.secrets import without_secrets


def test_passwords_keys_and_users_of_urls_are_hidden_and_nothing_else():
    settings = {
        "reward": {"url": "https://ann:pw@host:8000/score", "auth_token": "t0p", "api_key": None},
        "stages": ["sft", "http://u@h"],
        "algorithm": {"max_new_tokens": 48, "tokenizer": "x", "password": "p"},
        "seed": 1,
    }
    assert without_secrets(settings) == {
        "reward": {"url": "https://(hidden)@host:8000/score", "auth_token": "(hidden)", "api_key": None},
        "stages": ["sft", "http://(hidden)@h"],
        "algorithm": {"max_new_tokens": 48, "tokenizer": "x", "password": "(hidden)"},
        "seed": 1,
    }
    assert settings["algorithm"]["password"] == "p", "the run itself needs it"
