package resolver

import (
	"errors"

	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	"github.com/kedacore/keda/v2/pkg/scalers/authentication"
)

// leftOut stands in for the stores of secrets of clouds, which no trigger of CPU needs.
type leftOut struct{}

var errLeftOut = errors.New("this build of KEDA has no stores of secrets")

func NewHashicorpVaultHandler(*kedav1alpha1.HashiCorpVault, *authentication.AuthClientSet, string) leftOut {
	return leftOut{}
}
func NewAzureKeyVaultHandler(*kedav1alpha1.AzureKeyVault) leftOut       { return leftOut{} }
func NewGCPSecretManagerHandler(*kedav1alpha1.GCPSecretManager) leftOut { return leftOut{} }
func NewAwsSecretManagerHandler(*kedav1alpha1.AwsSecretManager) leftOut { return leftOut{} }

func (leftOut) Initialize(...any) error     { return errLeftOut }
func (leftOut) Read(...any) (string, error) { return "", errLeftOut }
func vaultAddressesEqual(a, b string) bool  { return false }
func (leftOut) Stop()                       {}
func (leftOut) ResolveSecrets([]kedav1alpha1.VaultSecret) ([]kedav1alpha1.VaultSecret, error) {
	return nil, errLeftOut
}
