// Package charts says what the chart grants, and checks what it renders.
package charts

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Rights are what each ServiceAccount of a rendered chart may do, as tables in Markdown.
func Rights(rendered io.Reader) (string, error) {
	roles, bindings, err := readRoles(rendered)
	if err != nil {
		return "", err
	}
	slices.SortStableFunc(bindings, func(a, b rbacv1.RoleBinding) int {
		return cmp.Or(strings.Compare(account(a), account(b)), strings.Compare(a.Namespace, b.Namespace))
	})
	out, last := &strings.Builder{}, ""
	for _, b := range bindings {
		rules, ok := roles[roleKey(b.RoleRef.Kind, b.Namespace, b.RoleRef.Name)]
		if !ok {
			return "", fmt.Errorf("%s %s is bound and not there", b.RoleRef.Kind, b.RoleRef.Name)
		}
		if account(b) != last {
			last = account(b)
			fmt.Fprintf(out, "\n`%s`:\n\n| where | group | resources | names | verbs |\n|---|---|---|---|---|\n", last)
		}
		for _, rule := range rules {
			fmt.Fprintf(out, "| %s | %s | %s | %s | %s |\n", cmp.Or(b.Namespace, "everywhere"), cmp.Or(strings.Join(rule.APIGroups, ", "), "core"),
				strings.Join(rule.Resources, ", "), cmp.Or(strings.Join(rule.ResourceNames, ", "), "any"), strings.Join(rule.Verbs, ", "))
		}
	}
	return strings.TrimPrefix(out.String(), "\n"), nil
}

// account that a binding is for.
func account(b rbacv1.RoleBinding) string {
	names := make([]string, len(b.Subjects))
	for i, s := range b.Subjects {
		names[i] = s.Name
	}
	return strings.Join(names, ", ")
}

func roleKey(kind, namespace, name string) string {
	if kind == "ClusterRole" {
		namespace = ""
	}
	return kind + "/" + namespace + "/" + name
}

// readRoles reads roles and bindings of both scopes; the namespace of what holds everywhere is empty.
func readRoles(rendered io.Reader) (map[string][]rbacv1.PolicyRule, []rbacv1.RoleBinding, error) {
	roles, bindings := map[string][]rbacv1.PolicyRule{}, []rbacv1.RoleBinding(nil)
	documents := utilyaml.NewYAMLReader(bufio.NewReader(rendered))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return roles, bindings, nil
		}
		if err != nil {
			return nil, nil, err
		}
		// A Role has the fields of a ClusterRole, and a RoleBinding those of a ClusterRoleBinding.
		var role rbacv1.Role
		if err := yaml.Unmarshal(document, &role); err != nil && strings.HasSuffix(role.Kind, "Role") {
			return nil, nil, err
		}
		switch role.Kind {
		case "Role", "ClusterRole":
			roles[roleKey(role.Kind, role.Namespace, role.Name)] = role.Rules
		case "RoleBinding", "ClusterRoleBinding":
			var binding rbacv1.RoleBinding
			if err := yaml.Unmarshal(document, &binding); err != nil {
				return nil, nil, err
			}
			bindings = append(bindings, binding)
		}
	}
}
