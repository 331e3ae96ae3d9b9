package doctor

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"attune.io/attune/api/v1alpha1"
)

// Versions of Kubernetes from which something is there.
var (
	resizes      = version.MustParseGeneric("1.33")
	lowersLimits = version.MustParseGeneric("1.34")
)

// kubernetes looks at the API server's version.
func kubernetes(seen *Seen, f *findings) {
	const show = "kubectl version"
	v, err := version.ParseGeneric(seen.Version)
	switch {
	case err != nil:
		f.add(Unknown, show, "the API server's version %q cannot be read", seen.Version)
	case v.LessThan(resizes):
		f.add(Problem, show, "the API server is %s: running pods are resized from Kubernetes 1.33 on", seen.Version)
	case v.LessThan(lowersLimits):
		f.add(Warning, show, "the API server is %s: memory limits are lowered from Kubernetes 1.34 on, and stay as they are until then", seen.Version)
	}
	f.fine("the API server is %s: pods are resized in place, memory limits too", seen.Version)
}

// kubelets looks at the kubelet's version of every node.
func kubelets(seen *Seen, f *findings) {
	const show = "kubectl get nodes -o wide"
	if f.unreadable("nodes", seen.Nodes.Err) {
		return
	}
	old := map[Level][]string{}
	for node := range seen.Nodes.all() {
		switch v, err := version.ParseGeneric(node.Status.NodeInfo.KubeletVersion); {
		case err != nil:
			old[Unknown] = append(old[Unknown], node.Name)
		case v.LessThan(resizes):
			old[Problem] = append(old[Problem], node.Name)
		case v.LessThan(lowersLimits):
			old[Warning] = append(old[Warning], node.Name)
		}
	}
	for level, sentence := range map[Level]string{
		Unknown: "the kubelet's version cannot be read of %s",
		Problem: "pods are not resized on %s, with a kubelet older than 1.33",
		Warning: "memory limits are not lowered on %s, with a kubelet older than 1.34",
	} {
		if names := old[level]; names != nil {
			f.add(level, show, sentence, listed("node", names))
		}
	}
	slices.SortFunc(f.of, func(a, b Result) int { return strings.Compare(a.Sentence, b.Sentence) })
	if len(seen.Nodes.Value) == 0 {
		f.add(Warning, show, "the cluster has no nodes")
	}
	f.fine("the kubelets of all %d nodes are 1.34 or newer", len(seen.Nodes.Value))
}

// ours are attune's CustomResourceDefinitions, chart the label that its chart gives them.
var ours = []string{"attuneclusterpolicies", "attunedefaults", "attunenamespacedefaults", "attunepolicies", "attunerecommendations"}

const chartLabel = "attune.io/crds"

// crds looks for attune's kinds, and for those of somebody else in the same group.
func crds(seen *Seen, f *findings) {
	if f.unreadable("CustomResourceDefinitions", seen.CRDs.Err) {
		return
	}
	missing := slices.Clone(ours)
	for crd := range seen.CRDs.all() {
		plural, group, _ := strings.Cut(crd.Name, ".")
		if group != v1alpha1.GroupVersion.Group {
			continue
		}
		at := slices.Index(missing, plural)
		if at < 0 {
			f.add(Problem, "kubectl delete customresourcedefinition "+crd.Name,
				"CustomResourceDefinition %s is not attune's, and is in its group: whoever installed it owns the group here; deleting it deletes its objects", crd.Name)
			continue
		}
		missing = slices.Delete(missing, at, at+1)
		if crd.Labels[chartLabel] != "chart" {
			f.add(Warning, "kubectl label customresourcedefinition "+crd.Name+" "+chartLabel+"=chart",
				"CustomResourceDefinition %s is not marked as the chart's: mark it if no other program owns the group attune.io", crd.Name)
		}
	}
	for _, plural := range missing {
		f.add(Problem, upgrade(seen.Scope), "CustomResourceDefinition %s.%s is missing", plural, v1alpha1.GroupVersion.Group)
	}
	f.fine("attune's %d CustomResourceDefinitions are there, and none of others in their group", len(ours))
}

// upgrade is the command that installs what is missing.
func upgrade(s Scope) string {
	return "helm upgrade --install attune charts/attune --namespace " + s.Operator + " --create-namespace --reuse-values"
}

// listed names the first three of several.
func listed(kind string, names []string) string {
	slices.Sort(names)
	more := ""
	if len(names) > 3 {
		names, more = names[:3], " and more"
	}
	if len(names) > 1 {
		kind += "s"
	}
	return kind + " " + strings.Join(names, ", ") + more
}
