package doctor

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
)

// Minimum versions of Kubernetes for in-place resizes, and for lower memory limits, which is the oldest that is supported.
var (
	resizes      = version.MustParseGeneric("1.33")
	lowersLimits = version.MustParseGeneric("1.34")
)

// kubernetes checks the API server's version.
func kubernetes(seen *Seen, f *findings) {
	const show = "kubectl version"
	v, err := version.ParseGeneric(seen.Version)
	switch {
	case err != nil:
		f.add(Unknown, show, "cannot parse the API server's version %q", seen.Version)
	case v.LessThan(lowersLimits):
		f.add(Problem, show, "the API server is %s: attune supports Kubernetes 1.34 and newer, which lowers memory limits in place", seen.Version)
	}
	f.fine("the API server is %s: it can resize running pods and lower memory limits", seen.Version)
}

// kubelets checks the kubelet's version of every node.
func kubelets(seen *Seen, f *findings) {
	const show = "kubectl get nodes -o wide"
	if f.unreadable("nodes", seen.Nodes.Err) {
		return
	}
	old := map[Level][]string{}
	for _, node := range seen.Nodes.all() {
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
		Unknown: "cannot parse the kubelet version of %s",
		Problem: "pods are not resized on %s: kubelet older than 1.33",
		Warning: "memory limits are not lowered on %s: kubelet older than 1.34",
	} {
		if names := old[level]; names != nil {
			f.add(level, show, sentence, listed("node", names))
		}
	}
	slices.SortFunc(f.of, func(a, b Result) int { return strings.Compare(a.Sentence, b.Sentence) })
	if len(seen.Nodes.Value) == 0 {
		f.add(Warning, show, "the cluster has no nodes")
	}
	f.fine("all kubelets are 1.34 or newer (%s)", answers.Counted(len(seen.Nodes.Value), "node"))
}

// ours are attune's CustomResourceDefinitions, and chartLabel is the label that its chart gives them.
var ours = []string{"attuneclusterpolicies", "attunedefaults", "attunenamespacedefaults", "attunepolicies", "attunerecommendations"}

const chartLabel = "attune.io/crds"

// crds checks that attune's kinds are installed, and that no other program's kinds are in its group.
func crds(seen *Seen, f *findings) {
	if f.unreadable("CustomResourceDefinitions", seen.CRDs.Err) {
		return
	}
	missing := slices.Clone(ours)
	for _, crd := range seen.CRDs.all() {
		plural, group, _ := strings.Cut(crd.Name, ".")
		if group != v1alpha1.GroupVersion.Group {
			continue
		}
		at := slices.Index(missing, plural)
		if at < 0 {
			f.add(Problem, "kubectl delete customresourcedefinition "+crd.Name,
				"CustomResourceDefinition %s of another product is in attune's API group: uninstall that product, or delete the definition, which also deletes its objects", crd.Name)
			continue
		}
		missing = slices.Delete(missing, at, at+1)
		if crd.Labels[chartLabel] != "chart" {
			f.add(Warning, "kubectl label customresourcedefinition "+crd.Name+" "+chartLabel+"=chart",
				"CustomResourceDefinition %s does not have the chart's label: add it if no other product owns the API group attune.io", crd.Name)
		}
	}
	for _, plural := range missing {
		f.add(Problem, upgrade(seen.Scope), "CustomResourceDefinition %s.%s is missing", plural, v1alpha1.GroupVersion.Group)
	}
	f.fine("all %d CustomResourceDefinitions of attune are installed, and no others are in their API group", len(ours))
}

// upgrade returns the command that installs missing objects.
func upgrade(s Scope) string {
	return "helm upgrade --install attune charts/attune --namespace " + s.Operator + " --create-namespace --reuse-values"
}

// listed formats up to three of the names.
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

// Right is a right that a verb of the plugin needs.
type Right struct {
	// Verb, Group, Resource and Subresource are the attributes of the request.
	Verb, Group, Resource, Subresource string
	// Namespace is the namespace of the request; empty for all namespaces or for cluster-scoped objects.
	Namespace string
	// For names the verbs that need it.
	For string
	// Allowed is the API server's answer. Err is set if it did not answer.
	Allowed bool
	Err     error
}

// Purposes of rights.
const (
	forAll       = "status, recommendations, explain, savings, history and diff"
	forSettings  = "the settings and prices in explain, diff and savings"
	forTemplates = "the current requests in recommendations, explain, diff and savings"
	forPods      = "the running pods in explain and savings"
	forPause     = "pause, resume and undo"
	forNode      = "node"
	forDecisions = "the operator's decisions in node"
)

// word is the part of a role's name for a purpose. Two purposes may need the same right in different namespaces.
var word = map[string]string{
	forAll: "read", forSettings: "settings", forTemplates: "templates", forPods: "pods", forPause: "pause", forNode: "node", forDecisions: "decisions",
}

// Needed returns the rights that the verbs of the plugin need in the scope.
func Needed(s Scope) (all []Right) {
	const get, list, patch = "get", "list", "patch"
	group := v1alpha1.GroupVersion.Group
	add := func(purpose, verb, group, namespace string, resources ...string) {
		for _, resource := range resources {
			resource, subresource, _ := strings.Cut(resource, "/")
			all = append(all, Right{Verb: verb, Group: group, Resource: resource, Subresource: subresource, Namespace: namespace, For: purpose})
		}
	}
	apps, batch := []string{"deployments", "statefulsets", "daemonsets", "replicasets"}, []string{"jobs", "cronjobs"}
	add(forAll, list, group, s.Namespace, "attunepolicies", "attunerecommendations")
	add(forSettings, get, group, s.Namespace, "attunepolicies", "attunenamespacedefaults")
	add(forSettings, get, group, "", "attunedefaults")
	add(forSettings, list, group, "", "attuneclusterpolicies")
	add(forTemplates, list, "apps", s.Namespace, apps...)
	add(forTemplates, list, "batch", s.Namespace, batch...)
	add(forPods, list, "", s.Namespace, "pods")
	add(forPause, patch, "apps", s.Namespace, apps...)
	add(forPause, patch, "batch", s.Namespace, batch...)
	add(forNode, get, "", "", "nodes")
	add(forNode, list, "", "", "pods")
	add(forNode, list, group, "", "attunerecommendations")
	add(forDecisions, get, "coordination.k8s.io", s.Operator, "leases")
	add(forDecisions, "create", "", s.Operator, "pods/portforward")
	return all
}

// name returns the resource as kubectl writes it, such as deployments.apps or pods/portforward.
func (r Right) name() string {
	name := r.Resource
	if r.Group != "" {
		name += "." + r.Group
	}
	if r.Subresource != "" {
		name += "/" + r.Subresource
	}
	return name
}

// grant returns the administrator's command that grants rights in one namespace, or in all if it is empty. NAME is the
// placeholder for the user.
func grant(role, verbs, resources, namespace string) string {
	create := "kubectl create clusterrole " + role + " --verb=" + verbs + " --resource=" + resources
	if namespace == "" {
		return create + " && kubectl create clusterrolebinding " + role + " --clusterrole=" + role + " --user=NAME"
	}
	return create + " && kubectl create rolebinding " + role + " --clusterrole=" + role + " --user=NAME --namespace " + namespace
}

// rights checks the caller's rights. The missing rights of one purpose, verb and namespace are one result.
func rights(seen *Seen, f *findings) {
	rest, failed, cause := seen.Rights, 0, error(nil)
	for len(rest) > 0 {
		first := rest[0]
		same := func(r Right) bool {
			return r.For == first.For && r.Verb == first.Verb && r.Namespace == first.Namespace
		}
		var missing []string
		for _, r := range rest {
			switch {
			case !same(r):
			case r.Err != nil:
				failed++
				cause = r.Err
			case !r.Allowed:
				missing = append(missing, r.name())
			}
		}
		if missing != nil {
			f.add(Warning, grant("attune-"+word[first.For]+"-"+first.Verb+"-"+first.Resource, first.Verb, strings.Join(missing, ","), first.Namespace), "missing permission to %s %s%s, needed for %s",
				first.Verb, strings.Join(missing, ", "), in(first.Namespace), first.For)
		}
		rest = slices.DeleteFunc(slices.Clone(rest), same)
	}
	if failed > 0 {
		f.add(Unknown, "kubectl auth can-i --list", "cannot check %d of your permissions: %v", failed, cause)
	}
	f.fine("you have the permissions for all commands of the plugin")
}

// in formats a namespace for a sentence.
func in(namespace string) string {
	if namespace == "" {
		return " in the whole cluster"
	}
	return " in namespace " + namespace
}
