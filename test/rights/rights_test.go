package rights

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

const log = `{"verb":"watch","requestURI":"/api/v1/pods?watch=true","user":{"username":"system:serviceaccount:ops:attune"},"objectRef":{"resource":"pods"},"responseStatus":{"code":200}}
{"verb":"patch","user":{"username":"system:serviceaccount:ops:attune"},"objectRef":{"resource":"pods","namespace":"shop","name":"web-1","subresource":"resize"},"annotations":{"authorization.k8s.io/decision":"allow"},"responseStatus":{"code":403}}
{"verb":"update","user":{"username":"system:serviceaccount:ops:attune"},"objectRef":{"resource":"leases","namespace":"ops","name":"attune","apiGroup":"coordination.k8s.io"},"responseStatus":{"code":200}}
{"verb":"update","user":{"username":"system:serviceaccount:ops:attune"},"objectRef":{"resource":"leases","namespace":"ops","name":"attune","apiGroup":"coordination.k8s.io"},"responseStatus":{"code":200}}
{"verb":"delete","user":{"username":"system:serviceaccount:ops:attune"},"objectRef":{"resource":"pods","namespace":"shop","name":"web-1"},"annotations":{"authorization.k8s.io/decision":"forbid"},"responseStatus":{"code":403},"requestReceivedTimestamp":"2026-11-28T06:00:00.000001Z"}
{"verb":"delete","user":{"username":"system:serviceaccount:ops:attune"},"objectRef":{"resource":"pods","namespace":"shop","name":"web-1"},"annotations":{"authorization.k8s.io/decision":"forbid"},"responseStatus":{"code":403},"requestReceivedTimestamp":"2026-11-28T07:00:00.000001Z"}
{"verb":"get","requestURI":"/version?timeout=1s","user":{"username":"system:serviceaccount:ops:attune"},"responseStatus":{"code":200}}
{"verb":"get","requ`

func TestGrantedAndUsedRights(t *testing.T) {
	uses, err := Read(strings.NewReader(log))
	require.NoError(t, err)
	require.Len(t, uses, 5, "each once, and none that is still being written")

	at := time.Date(2026, 11, 28, 6, 0, 0, 0, time.UTC)
	assert.Empty(t, Refused(uses, at), "the rights were taken away before")
	refused := Refused(uses, at.Add(time.Second))
	require.Len(t, refused, 1, "the first time counts")
	assert.Equal(t, refused, Refused(uses, time.Time{}))
	assert.Equal(t, "system:serviceaccount:ops:attune in shop delete pods web-1", refused[0].String())

	operator := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "ops", Name: "attune"}, {Kind: "User", Name: "admin"}}
	grants := Grants("ops", []Bound{
		{Subjects: operator, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch", "delete"}},
			{APIGroups: []string{""}, Resources: []string{"pods/resize"}, Verbs: []string{"patch"}},
			{NonResourceURLs: []string{"/version"}, Verbs: []string{"get"}},
		}},
		{Namespace: "ops", Subjects: operator, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"attune"}, Verbs: []string{"get", "update"}},
		}},
		{Namespace: "shop", Subjects: operator, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"update"}},
		}},
		{Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "other", Name: "attune"}}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
		}},
	})
	require.Len(t, grants, 8)
	var unused []string
	for _, g := range Unused(grants, uses) {
		unused = append(unused, g.String())
	}
	assert.Equal(t, []string{
		"system:serviceaccount:ops:attune delete pods",
		"system:serviceaccount:ops:attune in ops get leases.coordination.k8s.io attune",
		"system:serviceaccount:ops:attune in shop update leases.coordination.k8s.io",
		"system:serviceaccount:ops:attune list pods",
	}, unused)

	_, err = Read(strings.NewReader("{\n"))
	assert.ErrorContains(t, err, "line 1")
}
