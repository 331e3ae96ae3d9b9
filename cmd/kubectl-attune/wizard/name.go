package wizard

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"attune.io/attune/api/v1alpha1"
)

// nameOf makes the name of a policy from what it selects: deployments, deployment-web, or deployment-tier-api for tier=api.
// Different targets have different names, as far as the characters of a name allow.
func nameOf(target v1alpha1.TargetRef) string {
	kind := strings.ToLower(string(target.Kind))
	words := []string{kind}
	switch {
	case target.Name != "":
		words = append(words, target.Name)
	case target.Selector != nil:
		for _, key := range slices.Sorted(maps.Keys(target.Selector.MatchLabels)) {
			words = append(words, key, target.Selector.MatchLabels[key])
		}
		for _, of := range target.Selector.MatchExpressions {
			words = append(append(words, of.Key, string(of.Operator)), of.Values...)
		}
	}
	name := strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), "-")
	name = strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '.' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	if len(words) == 1 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return kind + "s"
	}
	return name
}

// replaced reports whether there is a policy of the name that has another target.
func (s Selection) replaced(by v1alpha1.TargetRef) bool {
	return s.Exists != nil && !equality.Semantic.DeepEqual(*s.Exists, by)
}

// spelled is a target as --workloads takes it.
func spelled(target v1alpha1.TargetRef) string {
	switch kind := string(target.Kind); {
	case target.Name != "":
		return kind + "/" + target.Name
	case target.Selector != nil:
		return kind + "," + metav1.FormatLabelSelector(target.Selector)
	default:
		return kind
	}
}
