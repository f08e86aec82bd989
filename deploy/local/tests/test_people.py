"""What people may do on the local cluster is the chart's list, and a viewer is no operator."""

import unittest

from localstack import rights

CHANGES = {"create", "update", "patch", "delete", "deletecollection", "*"}


class People(unittest.TestCase):
    def rules(self, kind: str, name: str) -> list[dict]:
        [found] = [each for each in rights.of_people() if (each["kind"], each["metadata"]["name"]) == (kind, name)]
        return found["rules"]

    def test_each_account_is_bound_to_its_methods_and_no_person_is(self):
        made = rights.of_people()
        for name in ("karpenter-viewer", "karpenter-operator"):
            kinds = [each["kind"] for each in made if each["metadata"]["name"] == name]
            self.assertEqual(kinds, ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role"])
        subjects = [each["subjects"] for each in made if each["kind"] == "ClusterRoleBinding"]
        self.assertEqual([each[0]["name"] for each in subjects], ["karpenter-viewer", "karpenter-operator"])

    def test_only_the_operators_account_may_call_what_changes_something(self):
        verbs = {name: self.rules("ClusterRole", name)[0]["verbs"] for name in ("karpenter-viewer", "karpenter-operator")}
        self.assertEqual(verbs, {"karpenter-viewer": ["get"], "karpenter-operator": ["get", "create"]})

    def test_a_person_changes_nothing_and_gets_tokens_of_named_accounts_only(self):
        for name, accounts in (
            ("karpenter-viewer", ["karpenter-viewer"]), ("karpenter-operator", ["karpenter-viewer", "karpenter-operator"]),
        ):
            for rule in self.rules("Role", name):
                if CHANGES & set(rule["verbs"]):
                    self.assertIn(rule["resources"], (["pods/portforward"], ["serviceaccounts/token"]))
                if rule["resources"] == ["serviceaccounts/token"]:
                    self.assertEqual(rule["resourceNames"], accounts)
                # Others' ConfigMaps may hold anything.
                if rule["resources"] == ["configmaps"]:
                    self.assertTrue(all(each.endswith("-trust") for each in rule["resourceNames"]))


if __name__ == "__main__":
    unittest.main()
