package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestTokensAreTheScrapersAndShort: the operator requests a token of the one ServiceAccount, valid for ten minutes.
func TestTokensAreTheScrapersAndShort(t *testing.T) {
	ends := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	clients := fake.NewClientset()
	var asked authenticationv1.TokenRequestSpec
	clients.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateActionImpl)
		assert.Equal(t, "token", create.Subresource)
		assert.Equal(t, "attune-system/attune-scraper", create.Namespace+"/"+create.Name)
		asked = create.Object.(*authenticationv1.TokenRequest).Spec
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: "short", ExpirationTimestamp: ends}}, nil
	})
	token, err := tokenOf(clients.CoreV1().ServiceAccounts("attune-system"), "attune-scraper")(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "short", token.AccessToken)
	assert.Equal(t, ends.Time, token.Expiry)
	assert.EqualValues(t, 600, *asked.ExpirationSeconds)
	assert.Empty(t, asked.Audiences, "the API server's own: kubelets ask it who that is")

	assert.Nil(t, connection{}.scraperTokens("attune-system", ""), "nobody is named: the operator's own credentials")
}

func TestATokenThatIsRefusedSaysWhose(t *testing.T) {
	_, err := tokenOf(fake.NewClientset().CoreV1().ServiceAccounts("attune-system"), "attune-scraper")(t.Context())
	assert.ErrorContains(t, err, "requesting a token of the ServiceAccount attune-scraper: ")
}
