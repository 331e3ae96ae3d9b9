package install

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// restrictedV2 is what OpenShift's SecurityContextConstraints restricted-v2 require of ids, in a namespace with the range
// 1000650000 to 1000659999. The rest of it is the Pod Security level restricted.
const restrictedV2 = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: restricted-v2}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  variables:
  - {name: pod, expression: "has(object.spec.securityContext) ? [object.spec.securityContext] : []"}
  - {name: containers, expression: "object.spec.containers.filter(c, has(c.securityContext)).map(c, c.securityContext)"}
  validations:
  - expression: "variables.pod.all(s, !has(s.runAsUser) || (s.runAsUser >= 1000650000 && s.runAsUser <= 1000659999)) && variables.containers.all(s, !has(s.runAsUser) || (s.runAsUser >= 1000650000 && s.runAsUser <= 1000659999))"
    message: "restricted-v2: runAsUser must be in the ranges: [1000650000, 1000659999]"
  - expression: "variables.pod.all(s, !has(s.fsGroup) || (s.fsGroup >= 1000650000 && s.fsGroup <= 1000659999))"
    message: "restricted-v2: fsGroup is not an allowed group"
  - expression: "!has(object.spec.hostNetwork) || !object.spec.hostNetwork"
    message: "restricted-v2: host network is not allowed"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: restricted-v2}
spec: {policyName: restricted-v2, validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {scc: restricted-v2}}}}
`

func documents(t *testing.T, text string) (found []*unstructured.Unstructured) {
	t.Helper()
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found
		}
		require.NoError(t, err)
		u := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(document, &u.Object))
		if len(u.Object) > 0 {
			found = append(found, u)
		}
	}
}

// TestPlatforms: the API server accepts what the chart renders with the values of each platform, and every pod of it, the
// uninstall Job's and the test pod included, in a namespace with the Pod Security level restricted.
func TestPlatforms(t *testing.T) {
	c := newClient(t)
	for _, o := range documents(t, restrictedV2) {
		require.NoError(t, c.Create(t.Context(), o))
		t.Cleanup(func() { assert.NoError(t, c.Delete(context.Background(), o)) })
	}
	namespaces := map[string]map[string]string{
		"restricted": {"pod-security.kubernetes.io/enforce": "restricted"},
		"openshift":  {"pod-security.kubernetes.io/enforce": "restricted", "scc": "restricted-v2"},
		"privileged": {"pod-security.kubernetes.io/enforce": "privileged"},
	}
	for name, of := range namespaces {
		require.NoError(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: of}}))
	}
	// The policy is not in force from the first moment on.
	require.Eventually(t, func() bool {
		pods := podsOf(t, template(t, "openshift", "--values", valuesOf("default")))
		return strings.Contains(errorOf(c.Create(t.Context(), pods[0], client.DryRunAll)), "restricted-v2: runAsUser must be in the ranges")
	}, patience, 100*time.Millisecond)

	files, err := filepath.Glob(valuesOf("*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		platform := strings.TrimSuffix(filepath.Base(file), "-values.yaml")
		t.Run(platform, func(t *testing.T) {
			namespace := "restricted"
			switch platform {
			case "openshift":
				namespace = "openshift"
			case "eks-custom-cni":
				namespace = "privileged"
				pods := podsOf(t, template(t, "restricted", "--values", file))
				assert.Contains(t, errorOf(c.Create(t.Context(), serving(t, pods), client.DryRunAll)), "host namespaces", "as the page says")
			}
			accepted(t, c, template(t, namespace, "--values", file))
		})
	}
	t.Run("OpenShift that Helm sees", func(t *testing.T) {
		accepted(t, c, template(t, "openshift", "--api-versions", "security.openshift.io/v1"))
	})
}

func valuesOf(platform string) string { return filepath.Join(chart, "ci", platform+"-values.yaml") }

func errorOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func template(t *testing.T, namespace string, args ...string) []*unstructured.Unstructured {
	t.Helper()
	out, err := runHelm(t, append([]string{"template", "attune", chart, "--namespace", namespace}, args...)...)
	require.NoError(t, err, out)
	return documents(t, out)
}

// accepted: the API server takes each object, and each pod that a controller would make of it.
func accepted(t *testing.T, c client.Client, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range objects {
		if group := o.GroupVersionKind().Group; group == "cert-manager.io" || group == "monitoring.coreos.com" {
			continue // their controllers are not there
		}
		stored := o.DeepCopy()
		err := c.Create(t.Context(), stored, client.DryRunAll, client.FieldValidation("Strict"))
		if apierrors.IsAlreadyExists(err) {
			continue
		}
		if assert.NoError(t, err, "%s %s", o.GetKind(), o.GetName()) && o.GroupVersionKind().Group == "admissionregistration.k8s.io" {
			// Argo CD shows what the API server adds as a difference.
			for _, field := range []string{"spec", "webhooks"} {
				rendered, err := json.Marshal(o.Object[field])
				require.NoError(t, err)
				got, err := json.Marshal(stored.Object[field])
				require.NoError(t, err)
				assert.JSONEq(t, string(rendered), string(got), "%s %s", o.GetKind(), o.GetName())
			}
		}
	}
	pods := podsOf(t, objects)
	assert.GreaterOrEqual(t, len(pods), 3)
	for _, pod := range pods {
		assert.NoError(t, c.Create(t.Context(), pod.DeepCopy(), client.DryRunAll, client.FieldValidation("Strict")), pod.Name)
	}
}

// podsOf are the pods of Deployments and Jobs, and those that are pods.
func podsOf(t *testing.T, objects []*unstructured.Unstructured) (pods []*corev1.Pod) {
	t.Helper()
	for _, o := range objects {
		of, found, err := unstructured.NestedMap(o.Object, "spec", "template")
		require.NoError(t, err)
		switch {
		case o.GetKind() == "Pod":
			of = o.Object
		case !found:
			continue
		}
		pod := &corev1.Pod{}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(of, pod))
		pod.Name, pod.Namespace = o.GetName(), o.GetNamespace()
		pods = append(pods, pod)
	}
	return pods
}

// serving is a pod with the port of the webhooks.
func serving(t *testing.T, pods []*corev1.Pod) *corev1.Pod {
	t.Helper()
	for _, pod := range pods {
		for _, port := range pod.Spec.Containers[0].Ports {
			if port.Name == "webhook" {
				return pod
			}
		}
	}
	require.Fail(t, "no pod serves the webhooks")
	return nil
}
