package output

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

func aPolicy(t *testing.T, name, targetRef string) v1alpha1.AttunePolicy {
	t.Helper()
	p := v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	require.NoError(t, yaml.Unmarshal([]byte(targetRef), &p.Spec.TargetRef))
	return p
}

func TestWhyThereIsNoRecommendation(t *testing.T) {
	web := workload.Workload{Identity: workload.Identity{Kind: "Deployment", Namespace: "shop", Name: "web"}, Labels: map[string]string{"tier": "web", "team": "a"}}
	is := func(name, target string) v1alpha1.AttunePolicy { return aPolicy(t, name, target) }
	ready := is("all", "{kind: Deployment}")
	ready.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "InsufficientData", Message: "12/48 samples measured"}}
	going := is("going", "{kind: Deployment}")
	going.DeletionTimestamp = &metav1.Time{}
	for name, c := range map[string]struct {
		policies []v1alpha1.AttunePolicy
		want     string
	}{
		"none": {nil, "no policy selects Deployment/web: no AttunePolicy or AttuneClusterPolicy covers namespace shop"},
		"labels": {[]v1alpha1.AttunePolicy{is("db", "{kind: StatefulSet}"), is("cache", "{kind: Deployment, name: cache}"), is("api", "{kind: Deployment, selector: {matchLabels: {tier: api}}}")},
			"no policy selects Deployment/web in namespace shop; the closest match is api, which requires tier=api (the workload has tier=web)"},
		"fewest labels": {[]v1alpha1.AttunePolicy{is("a", "{kind: Deployment, selector: {matchLabels: {tier: api, team: b}}}"), is("b", "{kind: Deployment, selector: {matchLabels: {zone: x, team: a}}}")},
			"no policy selects Deployment/web in namespace shop; the closest match is b, which requires zone=x (the workload has no such label)"},
		"another name": {[]v1alpha1.AttunePolicy{is("db", "{kind: StatefulSet}"), is("cache", "{kind: Deployment, name: cache}")},
			"no policy selects Deployment/web in namespace shop; the closest match is cache, which selects only Deployment/cache"},
		"another kind": {[]v1alpha1.AttunePolicy{is("z", "{kind: DaemonSet}"), is("db", "{kind: StatefulSet}")},
			"no policy selects Deployment/web in namespace shop; the closest match is db, which selects workloads of kind StatefulSet"},
		"on its way out": {[]v1alpha1.AttunePolicy{going, is("api", "{kind: Deployment, selector: {matchLabels: {tier: api}}}")},
			"no policy selects Deployment/web in namespace shop; the closest match is going, which is being deleted"},
		"not usable": {[]v1alpha1.AttunePolicy{is("empty", "{kind: Deployment, selector: {}}")},
			"no policy selects Deployment/web in namespace shop; the closest match is empty, which has an invalid targetRef: kubectl attune status shows why"},
		"not yet":       {[]v1alpha1.AttunePolicy{is("all", "{kind: Deployment}")}, "policy all selects Deployment/web in namespace shop, but there is no recommendation yet: the operator has not reconciled the policy yet"},
		"too few steps": {[]v1alpha1.AttunePolicy{ready}, "policy all selects Deployment/web in namespace shop, but there is no recommendation yet: InsufficientData, 12/48 samples measured"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, WhyNoRecommendation(web, c.policies)) })
	}
	skipped := web
	skipped.Annotations = map[string]string{v1alpha1.SkipAnnotation: "true"}
	assert.Equal(t, "no recommendation for Deployment/web in namespace shop: Deployment/web has the annotation attune.io/skip", WhyNoRecommendation(skipped, nil))
	unreadable := web
	unreadable.Unreadable = "it has no spec.template"
	assert.Equal(t, "no recommendation for Deployment/web in namespace shop: its pod template cannot be read: it has no spec.template", WhyNoRecommendation(unreadable, nil))
	part := workload.Workload{Identity: workload.Identity{Kind: "ReplicaSet", Namespace: "shop", Name: "web-1"}, OwnedBy: workload.Owner{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Name: "web"}}
	assert.Equal(t, "ReplicaSet/web-1 belongs to Deployment/web, which attune manages as a whole: specify that one", WhyNoRecommendation(part, nil))
}
